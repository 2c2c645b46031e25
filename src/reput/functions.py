"""Functions for the columns of Spark frames that `format("rocketmq")` or an export gives.

    import reput.functions as rf

    raw = spark.read.format("rocketmq").option("body", "raw").load(store)
    raw.select(rf.decode_body("body", "sysFlag").alias("body"))
    orders.select(rf.message_property("properties", "region"), rf.json_field("body", "$.customer.id"))
    orders.select(rf.json_fields("body", "id string, amount double").alias("order")).select("order.*")

`decode_body` and `body_error` are Arrow UDFs: they run in Spark's Python workers, which need reput. The others are
expressions of Spark's own functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.formats.log.body import MAX_DECODED_BODY_SIZE, BodyError
from reput.formats.log.body import decode_body as decoded_body

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import Column


def decode_body(body: Column | str, sys_flag: Column | str, max_size: int = MAX_DECODED_BODY_SIZE) -> Column:
    """Return the body as a consumer gets it, decompressed as the flags say; null if it cannot be, or is null.

    A body that the flags do not call compressed comes as it is, so a frame of decoded bodies does not change.

    Args:
        body: The column of stored bodies (binary), such as `body` of a frame with option body=raw.
        sys_flag: The column of RocketMQ's flags (int), `sysFlag`.
        max_size: The most bytes that a body may expand to.
    """
    return _udf("binary", max_size, body, sys_flag)


def body_error(body: Column | str, sys_flag: Column | str, max_size: int = MAX_DECODED_BODY_SIZE) -> Column:
    """Return the reason why `decode_body` returns null for a body; null if the body can be decoded.

    Args:
        body: As for `decode_body`.
        sys_flag: As for `decode_body`.
        max_size: As for `decode_body`.
    """
    return _udf("string", max_size, body, sys_flag)


def message_property(properties: Column | str, name: str) -> Column:
    """Return one property of a message as text; null without it.

    Args:
        properties: The column `properties` (map).
        name: The name of the property.
    """
    from pyspark.sql import functions as sf

    return sf.try_element_at(_column(properties), sf.lit(name))


def json_field(body: Column | str, path: str) -> Column:
    """Return one value of a body that is JSON, as text; null if there is none, or the body is no JSON in UTF-8.

    Args:
        body: The column of decoded bodies (binary).
        path: Spark's JSON path, such as `$.customer.id`.
    """
    from pyspark.sql import functions as sf

    return sf.get_json_object(_text(body), path)


def json_fields(body: Column | str, schema: str) -> Column:
    """Return the fields of a body that is JSON, as a struct; its fields are null if the body is no JSON in UTF-8.

    Args:
        body: The column of decoded bodies (binary).
        schema: The fields in Spark's DDL, such as `id string, amount double`.
    """
    from pyspark.sql import functions as sf

    return sf.from_json(_text(body), schema)


def _column(given: Column | str) -> Column:
    from pyspark.sql import functions as sf

    return sf.col(given) if isinstance(given, str) else given


def _text(body: Column | str) -> Column:
    """Return bytes as text; null if they are no UTF-8, on which Spark's own `decode` fails."""
    from pyspark.sql import functions as sf

    return sf.try_validate_utf8(_column(body).cast("string"))


def _udf(kind: str, max_size: int, body: Column | str, sys_flag: Column | str) -> Column:
    """Apply the Arrow UDF that returns bodies ("binary") or reasons ("string")."""
    import pyarrow as pa
    from pyspark.sql.pandas import functions

    def decode(bodies: pa.Array, flags: pa.Array) -> pa.Array:
        return _decoded(bodies, flags, kind, max_size)

    # Spark chooses the kind of function by these types, and must find the classes themselves.
    decode.__annotations__ = {"bodies": pa.Array, "flags": pa.Array, "return": pa.Array}
    # Its stubs want the kind of function, and with that it warns.
    arrow_udf: Any = functions.arrow_udf
    made: Column = arrow_udf(decode, kind)(body, sys_flag)
    return made


def _decoded(bodies: pa.Array, flags: pa.Array, kind: str, max_size: int) -> pa.Array:
    import pyarrow as pa

    found: list[bytes | str | None] = []
    for body, flag in zip(bodies, flags, strict=True):
        stored, sys_flag = body.as_py(), flag.as_py()
        value: bytes | str | None = None
        if stored is not None:
            try:
                value = decoded_body(stored, sys_flag or 0, max_size)
            except BodyError as error:
                value = str(error) if kind == "string" else None
            else:
                value = value if kind == "binary" else None
        found.append(value)
    return pa.array(found, pa.binary() if kind == "binary" else pa.string())
