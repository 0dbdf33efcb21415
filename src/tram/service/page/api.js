// Requests to the service. Errors are `ApiError`s with a sentence for the reader.

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const SILENT = "The service does not answer. Your document is kept; try again in a moment.";
const BROKEN = "The connection to the service was lost. Your document is kept; try again in a moment.";
const TOO_LONG = /request \((\d+)\) exceeds text limit \((\d+)\)/;

/** Return the service's own sentence, or what it means here. */
function explain(message, status) {
  const [, size, limit] = (TOO_LONG.exec(message) ?? []).map(Number);
  if (size) {
    const [has, allowed] = [size, limit].map((number) => number.toLocaleString("en"));
    return `The text has ${has} characters; the limit is ${allowed}. Translate it in parts, or as a file.`;
  }
  if (!message) return `The service answered ${status}`;
  return message.replace(/^Invalid request: /, "").replace(/^the /, "The ");
}

export class Api {
  /** @param {() => string} key returns the key to send, or "" */
  constructor(key) {
    this.key = key;
  }

  async send(method, path, body, signal) {
    const headers = {};
    if (this.key()) headers.Authorization = `Bearer ${this.key()}`;
    const isForm = body instanceof FormData;
    if (body !== undefined && !isForm) headers["Content-Type"] = "application/json";
    const sent = isForm ? body : body && JSON.stringify(body);
    const answer = await fetch(path, { method, headers, body: sent, signal }).catch(failed(SILENT));
    if (!answer.ok) {
      const problem = await answer.json().catch(() => ({}));
      throw new ApiError(explain(problem.error, answer.status), answer.status);
    }
    return answer;
  }

  async json(method, path, body, signal) {
    return (await this.send(method, path, body, signal)).json().catch(failed(BROKEN));
  }

  /** Yield the server-sent events of an answer as {name, data}; the last one is `done`. */
  async *events(method, path, body, signal) {
    const answer = await this.send(method, path, body, signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = "";
    for (;;) {
      const { value, done } = await reader.read().catch(failed(BROKEN));
      if (done) throw new ApiError(BROKEN, 0);
      const blocks = (waiting + value).split("\n\n");
      waiting = blocks.pop();
      for (const block of blocks) {
        const [name, data] = block.split("\n").map((line) => line.slice(line.indexOf(":") + 2));
        const event = { name, data: JSON.parse(data) };
        if (name === "error") throw new ApiError(event.data.error, event.data.status);
        yield event;
        if (name === "done") return;
      }
    }
  }
}

/** Return a handler that turns the browser's words for a lost connection into ours. */
const failed = (message) => (error) => {
  throw error.name === "AbortError" ? error : new ApiError(message, 0);
};
