// Values that the browser keeps; where it does not allow that, or has no room, they last as long as the page.

class Kept {
  #memory = new Map();

  /** @param {() => Storage} storage the browser's; reading it may throw */
  constructor(storage) {
    this.storage = storage;
  }

  get(name) {
    if (this.#memory.has(name)) return this.#memory.get(name);
    try {
      return this.storage().getItem(name);
    } catch {
      return null;
    }
  }

  set(name, value) {
    this.#memory.delete(name);
    try {
      this.storage().setItem(name, value);
    } catch {
      this.#memory.set(name, value);
    }
  }

  remove(name) {
    this.#memory.delete(name);
    try {
      this.storage().removeItem(name);
    } catch {
      // It was not there either
    }
  }
}

export const forThisTab = new Kept(() => sessionStorage);
export const forThisBrowser = new Kept(() => localStorage);
