#!/usr/bin/env bash
# Generates the messages of RocketMQ's gRPC protocol, with their types, from src/reput/broker/grpc/protocol/*.proto.
# The compiler is that of the oldest protobuf with which the messages work, in an environment of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PYTHON=${1:-python3}
COMPILER=grpcio-tools==1.78.0
FOLDER=reput/broker/grpc/protocol
NAMES=("$FOLDER/definition" "$FOLDER/service")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$PYTHON" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$COMPILER"
mkdir -p "$work/proto/$FOLDER"
for name in "${NAMES[@]}"; do
    sed -e 's#^package apache\.rocketmq\.v2;#package reput.rocketmq.v2;#' \
        -e "s#\"apache/rocketmq/v2/#\"$FOLDER/#" "src/$name.proto" >"$work/proto/$name.proto"
done
"$work/venv/bin/python" -m grpc_tools.protoc -I "$work/proto" --python_out=src --pyi_out=src "${NAMES[@]/%/.proto}"
