"""The JavaScript of all views as one text: its modules, joined without a build step.

Each module is a file that a browser or an editor understands as it is. anywidget, a saved notebook
and the book take one script, so the modules are written behind one another, each after those that
it imports, without their lines of `import` and without `export`. Their names do not meet: every
name outside a function is used once.
"""

import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
ENTRY = "widgets.js"
IMPORT = re.compile(r'^import\s[^;]*?from\s+"\./([\w.]+)";\n', re.M)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class)\b)", re.M)
DEFAULT = "export default { render };"

# Without a kernel the page itself holds a view's state; this stands for the model that anywidget
# would make.
MOUNT = """
// A view without a kernel: `el` shows `state`, and what is set is kept here.
async function mount(el, state) {
  const listeners = {};
  const model = {
    get: (name) => state[name],
    set(name, value) {
      const before = JSON.stringify(state[name]);
      state[name] = value;
      if (JSON.stringify(value) === before) return;
      for (const listener of listeners[`change:${name}`] ?? []) listener();
    },
    on(name, listener) {
      (listeners[name] ??= []).push(listener);
    },
    off(name, listener) {
      listeners[name] = (listeners[name] ?? []).filter((other) => other !== listener);
    },
    save_changes() {},
  };
  const text = atob(state._blob);
  const bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place++) bytes[place] = text.charCodeAt(place);
  state._blob = bytes;
  await render({ model, el });
  return model;
}
"""


def modules(name: str = ENTRY) -> list[str]:
    """The names of a module and of all that it needs, each after those that it imports."""
    names: list[str] = []
    for needed in IMPORT.findall((HERE / name).read_text("utf-8")):
        names += [other for other in modules(needed) if other not in names]
    return [*names, name]


@cache
def module() -> str:
    """All modules as one ES module, as anywidget takes it."""
    texts = ((HERE / name).read_text("utf-8") for name in modules())
    return "\n".join(EXPORT.sub("", IMPORT.sub("", text)) for text in texts)


def script() -> str:
    """All modules as a plain script, with `mount(el, state)` for pages without a kernel."""
    return module().replace(DEFAULT, MOUNT)
