#!/bin/sh
# Receives video, and shows it in a browser. Ctrl-C ends it.
cd "$(dirname "$0")" || exit
mkdir -p "$HOME/Movies/Anabranch"
open http://127.0.0.1:9100/
exec bin/anabranch recv --pair --keep-listening --dashboard 127.0.0.1:9100 \
    "$HOME/Movies/Anabranch/{time}.ts"
