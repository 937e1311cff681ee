// 5. The claims that several of the runs judge.

const comparedClaims = (() => {
  const VERDICTS = { holds: "✓ holds", fails: "✗ fails", undecided: "~ undecided", "not tested": "– not tested" };
  const ofRun = (number) => ({
    head: page.data.runs[number].name,
    left: true,
    sort: (claim) => claim.runs[number]?.verdict ?? "",
    text(claim) {
      const one = claim.runs[number];
      if (!one) return "";
      const after = one.stated === "after" ? " (stated after the results)" : "";
      return h("span", { class: `verdict ${one.verdict.split(" ")[0]}` }, VERDICTS[one.verdict] + after);
    },
    sub(claim) {
      const one = claim.runs[number];
      if (!one) return "";
      if (one.difference === null) return one.reason;
      const beside = one.opponents > 1 ? `, beside ${one.hardest}` : "";
      return `${signed(one.difference)} (${span(one, 3).replaceAll(" ", "\u00a0")})${beside}`;
    },
  });
  function numbers() {
    const parts = ["verdict", "difference", "low", "high", "p_holm", "hardest", "reason", "stated"];
    const rows = page.data.claims.flatMap((claim) =>
      claim.runs.flatMap((one, number) =>
        one ? [[claim.says, claim.holds, page.data.runs[number].name, ...parts.map((part) => one[part])]] : [],
      ),
    );
    return { columns: ["says", "holds", "run", ...parts], rows };
  }
  return {
    add() {
      const { claims, runs } = page.data;
      const reading =
        "Claims that two or more of the studies state, and what each run says of them, corrected for all claims of its " +
        "study: left minus right of the statement, with its 95 % interval.";
      const parent = section("claims", "Claims", claims.length ? reading : "");
      if (!claims.length) {
        parent.append(h("p", { class: "quiet" }, "No claim is stated by two of the studies."));
        return;
      }
      const says = {
        head: "claim",
        left: true,
        sort: (claim) => claim.says,
        text: (claim) => (claim.says === claim.holds ? h("code", {}, claim.holds) : claim.says),
        sub: (claim) => (claim.says === claim.holds ? "" : claim.holds),
      };
      const table = sortableTable([says, ...runs.map((_, number) => ofRun(number))], claims, { id: "claims-table" });
      table.classList.add("long");
      parent.append(
        table,
        h(
          "div",
          { class: "tools" },
          csvButton(() => "claims", numbers),
        ),
      );
    },
  };
})();
