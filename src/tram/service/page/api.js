// Requests to the service. Errors are `ApiError`s with the service's own sentence.

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
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
    let answer;
    try {
      answer = await fetch(path, { method, headers, body: isForm ? body : body && JSON.stringify(body), signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The service does not answer", 0);
    }
    if (!answer.ok) {
      const problem = await answer.json().catch(() => ({}));
      throw new ApiError(problem.error || `The service answered ${answer.status}`, answer.status);
    }
    return answer;
  }

  async json(method, path, body) {
    return (await this.send(method, path, body)).json();
  }

  /** Yield the server-sent events of an answer as {name, data}. */
  async *events(method, path, body, signal) {
    const answer = await this.send(method, path, body, signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (waiting + value).split("\n\n");
      waiting = blocks.pop();
      for (const block of blocks) {
        const [name, data] = block.split("\n").map((line) => line.slice(line.indexOf(":") + 2));
        const event = { name, data: JSON.parse(data) };
        if (name === "error") throw new ApiError(event.data.error, 0);
        yield event;
      }
    }
  }
}
