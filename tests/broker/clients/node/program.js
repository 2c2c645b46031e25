/* RocketMQ's Node client sends and receives at a gRPC port: `node program.js FOLDER ADDRESS`.
 *
 * FOLDER has the client. The last line is what it saw, as JSON.
 */
"use strict";

const { createRequire } = require("node:module");
const path = require("node:path");

const [folder, endpoints] = process.argv.slice(2);
const { ConsumeResult, Producer, PushConsumer, SimpleConsumer } = createRequire(path.join(path.resolve(folder), "_"))("rocketmq-client-nodejs");

const LEASE_MS = 10_000;
const WAIT_MS = 5_000;
const LIMIT_MS = 60_000;
const quiet = { info() {}, warn() {}, error() {}, debug() {} };
const options = { endpoints, namespace: "", logger: quiet };

async function send(producer, topic, count) {
  for (let number = 0; number < count; number++) {
    await producer.send({
      topic,
      tag: number % 2 ? "odd" : "even",
      keys: [`k${number}`],
      properties: new Map([["number", `${number}`]]),
      body: Buffer.from(`${topic}${number}`),
    });
  }
}

/** Receives and acknowledges messages until there are so many. */
async function take(consumer, count) {
  const found = [];
  for (const end = Date.now() + LIMIT_MS; found.length < count && Date.now() < end; ) {
    for (const one of await consumer.receive(16, LEASE_MS)) {
      await consumer.ack(one);
      found.push([one.body.toString(), one.tag, one.keys, one.properties.get("number"), one.deliveryAttempt]);
    }
  }
  return found.sort();
}

async function main() {
  const producer = new Producer({ ...options, topics: ["normal", "push"] });
  await producer.startup();
  await send(producer, "normal", 8);
  const simple = new SimpleConsumer({
    ...options,
    consumerGroup: "normal-readers",
    subscriptions: new Map([["normal", "even"]]),
    awaitDuration: WAIT_MS,
  });
  await simple.startup();
  const got = await take(simple, 4);
  const then = (await simple.receive(16, LEASE_MS)).map((one) => one.body.toString());
  await simple.shutdown();

  const pushed = [];
  const push = new PushConsumer({
    ...options,
    consumerGroup: "push-readers",
    subscriptions: new Map([["push", "*"]]),
    messageListener: {
      async consume(one) {
        pushed.push(`${one.body} ${one.deliveryAttempt}`);
        return one.deliveryAttempt === 1 ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    },
  });
  await push.startup();
  await send(producer, "push", 3);
  for (const end = Date.now() + LIMIT_MS; pushed.length < 6 && Date.now() < end; ) {
    await new Promise((go) => setTimeout(go, 50));
  }
  await push.shutdown();
  await producer.shutdown();
  process.stdout.write(`${JSON.stringify({ got, then, pushed: pushed.sort() })}\n`);
  process.exit(0);
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
