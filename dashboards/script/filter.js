// The language in which trials are filtered: words, and conditions such as nll<2.05.

const trialFilter = (() => {
  const CONDITION = /^([^<>=:]+)(<=|>=|<|>|=|:)(.*)$/s;
  const TESTS = {
    "<": (a, b) => a < b,
    "<=": (a, b) => a <= b,
    ">": (a, b) => a > b,
    ">=": (a, b) => a >= b,
  };
  const low = (value) => String(value).toLowerCase();

  /** What conditions can be about: name → a trial's value. */
  function values() {
    const found = new Map();
    for (const name of trials.settings()) found.set(low(name), trials.setting(name));
    for (const name of Object.keys(trials.columns())) found.set(name, trials.value(name));
    found.set("reused", (i) => (trials.columns().reused[i] ? "yes" : "no"));
    return found;
  }
  /** Those that this run's trials have a value of. */
  function names() {
    const has = ([, value]) => trials.all().some((i) => value(i) !== null && value(i) !== "");
    return [...values()].filter(has).map(([name]) => name);
  }
  /** Everything of a trial that words are looked for in. */
  function haystack(i) {
    const { phase, arm, status, error, seed } = trials.columns();
    const settings = trials.settings().map((name) => {
      const value = trials.setting(name)(i);
      return value === null ? "" : `${name}=${value}`;
    });
    const own = [phase[i], arm[i], armLabels.of(arm[i]), status[i], error[i] || "", `seed ${seed[i]}`];
    return low([...own, ...settings].join(" "));
  }
  /** How many letters must change to get from one word to another. */
  function distance(a, b) {
    let row = Array.from({ length: b.length + 1 }, (_, k) => k);
    for (let i = 1; i <= a.length; i++) {
      const next = [i];
      for (let k = 1; k <= b.length; k++)
        next.push(Math.min(row[k] + 1, next[k - 1] + 1, row[k - 1] + (a[i - 1] !== b[k - 1])));
      row = next;
    }
    return row[b.length];
  }
  function unknown(name) {
    const known = names();
    const alike = known.filter((one) => one.includes(name) || distance(one, name) <= Math.max(1, name.length / 3));
    const near = alike.sort((a, b) => distance(a, name) - distance(b, name)).slice(0, 3);
    return near.length
      ? `There is no “${name}”: did you mean ${near.join(" or ")}?`
      : `There is no “${name}”. Known are: ${known.join(", ")}.`;
  }
  function condition(name, sign, wanted) {
    const value = values().get(low(name));
    if (!value) return { fault: unknown(low(name)) };
    const number = Number(wanted);
    if (sign === "=" || sign === ":") {
      const same = (own) => (typeof own === "number" ? own === number : low(own) === low(wanted));
      return { test: (i) => same(value(i)) || (low(name) === "arm" && same(armLabels.of(value(i)))) };
    }
    if (Number.isNaN(number)) return { fault: `${name}${sign} needs a number, and “${wanted}” is none.` };
    return { test: (i) => typeof value(i) === "number" && TESTS[sign](value(i), number) };
  }
  /** One term of the text: {test(i)}, or {fault}; nothing where it is not typed to its end. */
  function term(text) {
    const negated = text.startsWith("-") && text.length > 1;
    const bare = (negated ? text.slice(1) : text).replaceAll('"', "");
    const [, name, sign, wanted] = CONDITION.exec(bare) || [];
    if (sign && !wanted) return null;
    const found = sign ? condition(name, sign, wanted) : { test: (i) => haystack(i).includes(low(bare)) };
    if (!negated || found.fault) return found;
    return { test: (i) => !found.test(i) };
  }

  return {
    names,
    /** {matches(i), faults}: a trial must match all terms; what cannot be understood matches none. */
    read(text) {
      const terms = (text.match(/(?:"[^"]*"?|[^\s"])+/g) || []).map(term).filter(Boolean);
      const faults = [...new Set(terms.flatMap(({ fault }) => fault || []))];
      return { faults, matches: (i) => !faults.length && terms.every(({ test }) => test(i)) };
    },
  };
})();
