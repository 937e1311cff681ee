// What the reader chose, kept in the page's address: a reload, or a link that is sent, shows the same.

/**
 * The address ends in #PLACE?NAME=VALUE&.., with what differs from how the page begins. Names are SECTION.KEY.
 *
 * Controls of parts.js and tables with a `state` are kept by themselves. What no longer means anything is ignored.
 */
const choices = (() => {
  const PAUSE = 200; // browsers limit how often an address may change
  const fields = new Map(); // name → {get(), begins}
  const names = new WeakMap(); // state → its name
  const owners = new Map(); // name → state
  let [place, asked] = parts();
  let begin = "page";
  let waiting = null;

  function parts() {
    const [anchor, rest = ""] = location.hash.slice(1).split(/\?(.*)/s);
    return [anchor, new Map(new URLSearchParams(rest))];
  }
  function write() {
    clearTimeout(waiting);
    waiting = null;
    const found = new URLSearchParams([...asked]);
    for (const [name, { get, begins }] of fields) if (get() !== begins) found.set(name, get());
    const hash = String(found) ? `#${place}?${found}` : place && `#${place}`;
    if (/^(https?|file):$/.test(location.protocol))
      history.replaceState("kept", "", location.href.split("#")[0] + hash);
  }
  function save() {
    waiting ??= setTimeout(write, PAUSE);
  }
  /** A place on the page was gone to; or another address was typed, which is a new beginning. */
  function moved() {
    if (history.state === null && location.hash.includes("?")) {
      location.reload();
      return;
    }
    [place] = parts();
    write();
  }
  addEventListener("hashchange", moved);
  addEventListener("pagehide", () => waiting && write());

  /**
   * Keeps what get() says as text, unless it is what the page begins with.
   * set(text): takes it over from the address, or returns false if it means nothing.
   */
  function add(name, get, set, begins = fields.get(name)?.begins ?? get()) {
    fields.set(name, { get, begins });
    if (asked.has(name) && set(asked.get(name)) !== false) asked.delete(name);
  }
  /** state[key], one of some values (of any, if none are given), under the name of the section that it is first met in. */
  function one(state, key, values) {
    if (!names.has(state)) {
      let name = begin;
      for (let n = 2; owners.has(name); n++) name = begin + n;
      owners.set(name, state);
      names.set(state, name);
    }
    const name = `${names.get(state)}.${key}`;
    const set = (text) => {
      const value = values ? values.find((each) => String(each) === text) : text;
      if (value === undefined) return false;
      state[key] = value;
    };
    add(name, () => String(state[key] ?? ""), set);
    return () => {
      asked.delete(name);
      save();
    };
  }
  /** Which of some values are in a Set, which is changed in place; under the name of the section that is being made. */
  function several(key, set, values, suggested = []) {
    const inOrder = (some) => values.filter((value) => some.includes(value)).join(",");
    const take = (text) => {
      const found = text.split(",").filter((value) => values.includes(value));
      if (text && !found.length) return false;
      set.clear();
      for (const value of found) set.add(value);
    };
    add(`${begin}.${key}`, () => inOrder([...set]), take, inOrder(suggested));
  }
  return {
    add,
    one,
    several,
    save,
    /** From here on, names begin with this. */
    within(id) {
      begin = id;
    },
    /** To the place that the address names, once it is there. */
    goToPlace() {
      if (place) document.getElementById(place)?.scrollIntoView();
    },
  };
})();
