package reput.clients;

import org.apache.rocketmq.remoting.RPCHook;

/** Clients that sign their requests. Version 4 of the client has no classes for that, so they are called by name. */
final class Signing {
    private static final String PACKAGE = "org.apache.rocketmq.acl.common.";

    private Signing() {
    }

    /** The hook that signs with the key and secret of the system properties; null without them. */
    static RPCHook hook() {
        String key = System.getProperty("reput.accessKey");
        if (key == null) {
            return null;
        }
        try {
            Class<?> credentials = Class.forName(PACKAGE + "SessionCredentials");
            Object given = credentials.getConstructor(String.class, String.class).newInstance(key, System.getProperty("reput.secretKey"));
            return (RPCHook) Class.forName(PACKAGE + "AclClientRPCHook").getConstructor(credentials).newInstance(given);
        } catch (ReflectiveOperationException missing) {
            throw new IllegalStateException(missing);
        }
    }
}
