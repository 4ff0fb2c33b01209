package console

import (
	"bytes"
	_ "embed" // the page
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

//go:embed terminal.html
var terminalPage []byte

//go:embed terminal.js
var terminalScript []byte

// page shows the serial console in a browser. It is no use without a token, which it does not take: its script opens the console.
func (p proxy) page(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("token") == "" {
		http.Error(w, "This is where consoles of servers are. Ask the compute API for one.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(terminalPage)
}

// newTerminal serves what the page is made of. Debian's xterm.js is in modules of Node.js, of which browsers are given one script.
func newTerminal(folder string) http.Handler {
	bundled := sync.OnceValues(func() ([]byte, error) { return bundle(os.DirFS(filepath.Join(folder, "lib"))) })
	mux := http.NewServeMux()
	serve := func(name, kind string, content func() ([]byte, error)) {
		mux.HandleFunc("GET /terminal/"+name, func(w http.ResponseWriter, _ *http.Request) {
			text, err := content()
			if err != nil {
				http.Error(w, "Debian's package node-xterm is not there", http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(text)
		})
	}
	const script = "text/javascript; charset=utf-8"
	serve("terminal.js", script, func() ([]byte, error) { return terminalScript, nil })
	serve("xterm.js", script, bundled)
	serve("xterm.css", "text/css; charset=utf-8", func() ([]byte, error) { return os.ReadFile(filepath.Join(folder, "lib", "xterm.css")) })
	return mux
}

// bundle makes one script of the modules of xterm.js, which sets Terminal.
func bundle(lib fs.FS) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("'use strict';var Terminal=(function(){var all={},made={};\n")
	err := fs.WalkDir(lib, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name == "addons":
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".js" || strings.Contains(name, ".test."):
			return nil
		}
		text, err := fs.ReadFile(lib, name)
		if err == nil {
			fmt.Fprintf(&out, "all[%q]=function(require,module,exports){%s\n};\n", strings.TrimSuffix(name, ".js"), text)
		}
		return err
	})
	if err == nil {
		_, err = fs.Stat(lib, "xterm.js")
	}
	out.WriteString(`function load(name) {
  if (!made[name]) {
    var module = made[name] = {exports: {}}, dir = name.split('/').slice(0, -1);
    all[name](function (wanted) {
      var at = dir.slice();
      wanted.split('/').forEach(function (part) { if (part === '..') at.pop(); else if (part !== '.') at.push(part); });
      return load(at.join('/'));
    }, module, module.exports);
  }
  return made[name].exports;
}
return load('xterm');})();
`)
	return out.Bytes(), err
}
