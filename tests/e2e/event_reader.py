"""Reads TensorBoard event files with none of the project's code: record framing by the CRC-32C of crcmod, messages by
Google's protobuf library from the fields that TensorFlow's public event.proto, summary.proto and graph.proto give. Prints one JSON
object an event.

  event_reader.py FILE...        exits 1 at the first damage
"""

from __future__ import annotations

import json
import struct
import sys

import crcmod.predefined
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

DOUBLE, FLOAT, INT64, INT32, STRING, BYTES, MESSAGE = 1, 2, 3, 5, 9, 12, 11
#: message: (name, number, type, repeated, type's name)
MESSAGES = {
    "Event": [
        ("wall_time", 1, DOUBLE, 0, ""),
        ("step", 2, INT64, 0, ""),
        ("file_version", 3, STRING, 0, ""),
        ("graph_def", 4, BYTES, 0, ""),
        ("summary", 5, MESSAGE, 0, "Summary"),
        ("session_log", 7, MESSAGE, 0, "SessionLog"),
    ],
    "GraphDef": [("node", 1, MESSAGE, 1, "NodeDef"), ("versions", 4, MESSAGE, 0, "Versions")],
    "Versions": [("producer", 1, INT32, 0, "")],
    "NodeDef": [
        ("name", 1, STRING, 0, ""),
        ("op", 2, STRING, 0, ""),
        ("input", 3, STRING, 1, ""),
        ("attr", 5, MESSAGE, 1, "Attribute"),
    ],
    "Attribute": [("key", 1, STRING, 0, ""), ("value", 2, MESSAGE, 0, "AttributeValue")],
    "AttributeValue": [("s", 2, BYTES, 0, "")],
    "SessionLog": [("status", 1, INT32, 0, ""), ("checkpoint_path", 2, STRING, 0, ""), ("msg", 3, STRING, 0, "")],
    "Summary": [("value", 1, MESSAGE, 1, "Value")],
    "Value": [
        ("tag", 1, STRING, 0, ""),
        ("simple_value", 2, FLOAT, 0, ""),
        ("tensor", 8, MESSAGE, 0, "Tensor"),
        ("metadata", 9, MESSAGE, 0, "Metadata"),
    ],
    "Metadata": [
        ("plugin_data", 1, MESSAGE, 0, "PluginData"),
        ("display_name", 2, STRING, 0, ""),
        ("summary_description", 3, STRING, 0, ""),
        ("data_class", 4, INT32, 0, ""),
    ],
    "PluginData": [("plugin_name", 1, STRING, 0, ""), ("content", 2, BYTES, 0, "")],
    "Tensor": [("dtype", 1, INT32, 0, ""), ("tensor_shape", 2, MESSAGE, 0, "Shape"), ("string_val", 8, BYTES, 1, "")],
    "Shape": [("dim", 2, MESSAGE, 1, "Dim")],
    "Dim": [("size", 1, INT64, 0, ""), ("name", 2, STRING, 0, "")],
}


def event_classes():
    """The classes of Event and GraphDef."""
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="t", syntax="proto2")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated, of in fields:
            message.field.add(
                name=field, number=number, type=kind, label=3 if repeated else 1, type_name=f".t.{of}" if of else None
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return [factory.GetPrototype(pool.FindMessageTypeByName(f"t.{name}")) for name in ("Event", "GraphDef")]


def masked_crc(data: bytes) -> int:
    crc = crcmod.predefined.mkPredefinedCrcFun("crc-32c")(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(path: str):
    with open(path, "rb") as file:
        while header := file.read(12):
            assert len(header) == 12, f"{path}: a torn header"
            length, crc = struct.unpack("<QI", header)
            assert crc == masked_crc(header[:8]), f"{path}: CRC of a length"
            data = file.read(length)
            assert len(data) == length, f"{path}: a torn record"
            assert struct.unpack("<I", file.read(4))[0] == masked_crc(data), f"{path}: CRC of a record"
            yield data


def plain(event) -> dict:
    out = {"wall_time": event.wall_time, "step": event.step, "scalars": {}, "texts": {}}
    if event.HasField("file_version"):
        out["file_version"] = event.file_version
    if event.HasField("session_log"):
        out["session_log"] = event.session_log.status
    for value in event.summary.value:
        if value.HasField("simple_value"):
            out["scalars"][value.tag] = repr(value.simple_value)
        else:
            assert value.tensor.dtype == 7 and [dim.size for dim in value.tensor.tensor_shape.dim] == [1]
            assert value.metadata.plugin_data.plugin_name == "text" and value.metadata.data_class == 2
            out["texts"][value.tag] = value.tensor.string_val[0].decode()
    return out


def main() -> int:
    event_type, graph_type = event_classes()
    for path in sys.argv[1:]:
        for data in records(path):
            event = event_type()
            event.ParseFromString(data)
            assert not event.UnknownFields(), f"{path}: fields that no event has"
            out = plain(event)
            if event.HasField("graph_def"):
                graph = graph_type()
                graph.ParseFromString(event.graph_def)
                assert not graph.UnknownFields(), f"{path}: fields that no graph has"
                out["graph"] = [{"name": n.name, "op": n.op, "inputs": list(n.input)} for n in graph.node]
            print(json.dumps(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
