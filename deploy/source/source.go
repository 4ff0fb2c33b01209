// Package source finds the files of this repository, for what reads its code.
package source

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// GoFiles calls visit with the path and the text of each Go file below a folder. It leaves out what is not of the repository: folders
// whose names begin with a dot, for .bin and .task hold Go's own sources and those of an earlier release.
func GoFiles(root string, visit func(path string, text []byte) error) error {
	tree := os.DirFS(root)
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return visit(filepath.Join(root, name), text)
	})
}

// Test returns the function if a declaration is a test, nil if it is anything else.
func Test(d ast.Decl) *ast.FuncDecl {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Recv != nil || f.Name.Name == "TestMain" || !strings.HasPrefix(f.Name.Name, "Test") {
		return nil
	}
	return f
}
