// Runs the program, which is compiled to WebAssembly with WASI: a command line and files in, its output back.

import { ConsoleStdout, Directory, Fd, File, Inode, PreopenDirectory, WASI, wasi } from "@bjorn3/browser_wasi_shim";

// A file that the browser reads while the program does: a log of 100 MB is never in memory as a whole.
class DroppedFile extends Inode {
  constructor(blob, read) {
    super();
    Object.assign(this, { blob, read });
  }
  path_open() {
    return { ret: wasi.ERRNO_SUCCESS, fd_obj: new OpenDroppedFile(this) };
  }
  stat() {
    return new wasi.Filestat(this.ino, wasi.FILETYPE_REGULAR_FILE, BigInt(this.blob.size));
  }
}

class OpenDroppedFile extends Fd {
  constructor(file) {
    super();
    Object.assign(this, { file, at: 0 });
  }
  fd_fdstat_get() {
    return { ret: wasi.ERRNO_SUCCESS, fdstat: new wasi.Fdstat(wasi.FILETYPE_REGULAR_FILE, 0) };
  }
  fd_filestat_get() {
    return { ret: wasi.ERRNO_SUCCESS, filestat: this.file.stat() };
  }
  fd_read(size) {
    const part = new FileReaderSync().readAsArrayBuffer(this.file.blob.slice(this.at, this.at + size));
    this.at += part.byteLength;
    this.file.read(part.byteLength);
    return { ret: wasi.ERRNO_SUCCESS, data: new Uint8Array(part) };
  }
}

// Collects what the program writes.
class Written {
  parts = [];
  stream = new ConsoleStdout((bytes) => this.parts.push(bytes));
  text() {
    const decoder = new TextDecoder();
    return this.parts.map((part) => decoder.decode(part, { stream: true })).join("") + decoder.decode();
  }
}

// The program, which keeps what it has compiled from one command to the next.
export async function start(module) {
  const wasi = new WASI([], [], [], { debug: false });
  const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: wasi.wasiImport });
  wasi.initialize(instance);
  return (args, files, read) => {
    const [out, errors] = [new Written(), new Written()];
    const root = new PreopenDirectory("/", tree(files, read));
    wasi.args = ["fabric-injector", ...args];
    wasi.fds.splice(0, wasi.fds.length, new ConsoleStdout(() => {}), out.stream, errors.stream, root);
    const status = instance.exports.run();
    return { status, out: out.text(), errors: errors.text(), files: written(root.dir.contents, files) };
  };
}

// The texts of the files that the program has added.
function written(folder, known, path = "") {
  const files = {};
  for (const [name, entry] of folder) {
    const at = path + name;
    if (entry instanceof Directory) Object.assign(files, written(entry.contents, known, `${at}/`));
    else if (!(at in known)) files[at] = new TextDecoder().decode(entry.data);
  }
  return files;
}

// Texts, bytes and dropped files by their path, as folders.
function tree(files, read) {
  const root = new Map();
  for (const [path, content] of Object.entries(files)) {
    const folders = path.split("/");
    const name = folders.pop();
    let folder = root;
    for (const part of folders) {
      if (!folder.has(part)) folder.set(part, new Directory(new Map()));
      folder = folder.get(part).contents;
    }
    const isDropped = typeof Blob !== "undefined" && content instanceof Blob;
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    folder.set(name, isDropped ? new DroppedFile(content, read) : new File(bytes));
  }
  return root;
}
