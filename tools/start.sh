#!/bin/sh
# `npm start`: asks before it installs anything, prepares the clone and runs the playground.

cd "${0%/*}/.." || exit 1
node tools/setup.mjs --for-playground "$@"
status=$?
case $status in
  0) exec node_modules/.bin/node playground/main.ts "$@" ;;
  3) exit 0 ;; # --help, which needs no set-up
  *) exit "$status" ;;
esac
