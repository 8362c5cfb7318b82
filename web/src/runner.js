// Runs commands in a worker, one at a time, and ends it if one takes too long.

const LONGEST = 10_000;

export class Runner {
  #module;
  #worker;
  #last = Promise.resolve();

  // Compiles the program while it arrives.
  constructor(url) {
    this.#module = WebAssembly.compileStreaming(fetch(url));
  }

  // Resolves to the exit status and what the command wrote. `read` gets the bytes of dropped files as they are read.
  run(args, files, read = () => {}) {
    const result = this.#last.then(() => this.#start(args, files, read));
    this.#last = result.catch(() => {});
    return result;
  }

  async #start(args, files, read) {
    // It starts while the program is compiled.
    this.#worker ??= new Worker("worker.js", { type: "module" });
    const [worker, module] = [this.#worker, await this.#module];
    return new Promise((resolve) => {
      const end = (message) => {
        worker.terminate();
        this.#worker = undefined;
        resolve({ status: -1, out: "", errors: message });
      };
      const timer = setTimeout(
        () => end("The command took longer than ten seconds, and was ended. The program has no such limit.\n"),
        LONGEST,
      );
      worker.onmessage = ({ data }) => {
        if (data.read !== undefined) return read(data.read);
        clearTimeout(timer);
        // A program that failed cannot run again.
        if (data.failure) return end(`The command ended before its result: ${data.failure}\n`);
        resolve(data.result);
      };
      worker.onerror = (event) => {
        clearTimeout(timer);
        end(`The program cannot be started: ${event.message}\n`);
      };
      worker.postMessage({ module, args, files });
    });
  }
}
