// One program, which runs commands one after another.

import { start } from "./program.js";

let program;

onmessage = async ({ data: { module, args, files } }) => {
  try {
    program ??= start(module);
    const run = await program;
    const read = (bytes) => postMessage({ read: bytes });
    postMessage({ result: run(args, files, read) });
  } catch (error) {
    postMessage({ failure: String(error) });
  }
};
