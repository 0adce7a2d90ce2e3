// Tree of hierarchical tags: animal|cat is a child of animal, which need not be a tag itself.

const ORDERS = {
  waiting: (a, b) => b.waiting - a.waiting || b.own - a.own,
  own: (a, b) => b.own - a.own,
  name: () => 0,
};

/** Build the tree of {path, level, own, waiting, tag or null, kids}; own and waiting are sums. */
export function tree(all, text, order) {
  const wanted = text.trim().toLowerCase();
  const root = { kids: new Map() };
  for (const tag of all) {
    if (wanted && !tag.name.toLowerCase().includes(wanted)) continue;
    let node = root;
    const parts = tag.name.split("|");
    parts.forEach((part, level) => {
      const path = parts.slice(0, level + 1).join("|");
      if (!node.kids.has(part)) {
        node.kids.set(part, { path, level, own: 0, waiting: 0, tag: null, kids: new Map() });
      }
      node = node.kids.get(part);
      node.own += tag.own;
      node.waiting += tag.hidden ? 0 : tag.waiting;
    });
    node.tag = tag;
  }
  return sorted(root, ORDERS[order]);
}

function sorted(node, by) {
  return [...node.kids.values()]
    .map((kid) => ({ ...kid, kids: sorted(kid, by) }))
    .sort((a, b) => by(a, b) || a.path.localeCompare(b.path));
}

/** Return the visible rows, without the children of collapsed ones. */
export function visible(nodes, folded, all) {
  return nodes.flatMap((node) => [
    { ...node, kids: node.kids.length },
    ...(folded.has(node.path) && !all ? [] : visible(node.kids, folded, all)),
  ]);
}
