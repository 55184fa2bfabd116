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

#: protobuf's numbers of types
TYPES = {"double": 1, "float": 2, "int64": 3, "int32": 5, "string": 9, "bytes": 12}
MESSAGE = 11
#: message: number, type, name of each field; * marks a repeated one
MESSAGES = {
    "Event": "1 double wall_time, 2 int64 step, 3 string file_version, 4 bytes graph_def, 5 Summary summary, 7 SessionLog session_log",
    "GraphDef": "1 NodeDef* node, 4 Versions versions",
    "Versions": "1 int32 producer",
    "NodeDef": "1 string name, 2 string op, 3 string* input, 5 Attribute* attr",
    "Attribute": "1 string key, 2 AttributeValue value",
    "AttributeValue": "2 bytes s",
    "SessionLog": "1 int32 status, 2 string checkpoint_path, 3 string msg",
    "Summary": "1 Value* value",
    "Value": "1 string tag, 2 float simple_value, 8 Tensor tensor, 9 Metadata metadata",
    "Metadata": "1 PluginData plugin_data, 2 string display_name, 3 string summary_description, 4 int32 data_class",
    "PluginData": "1 string plugin_name, 2 bytes content",
    "Tensor": "1 int32 dtype, 2 Shape tensor_shape, 8 bytes* string_val",
    "Shape": "2 Dim* dim",
    "Dim": "1 int64 size, 2 string name",
}


def event_classes():
    """The classes of Event and GraphDef."""
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="t", syntax="proto2")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            number, kind, called = field.split()
            label, kind = (3 if kind.endswith("*") else 1), kind.rstrip("*")
            plain_type = TYPES.get(kind)
            message.field.add(
                name=called,
                number=int(number),
                label=label,
                type=plain_type or MESSAGE,
                type_name=None if plain_type else f".t.{kind}",
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
