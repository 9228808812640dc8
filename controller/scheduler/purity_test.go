package scheduler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The package is pure: these imports of the standard library can read no clock, no file, no
// network and no randomness, and the functions of "time" that can are not called.
func TestThePackageIsPure(t *testing.T) {
	t.Parallel()
	pure := []string{"cmp", "encoding/binary", "fmt", "maps", "math/bits", "slices", "strings", "time"}
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"}
	output := []string{"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"}

	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	parsed := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed++
		tree, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range tree.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil || i.Name != nil || !slices.Contains(pure, path) {
				t.Errorf("%s imports %s: a decision needs nothing but its snapshot", f.Name(), i.Path.Value)
			}
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && (x.Name == "time" && slices.Contains(clock, n.Sel.Name) || x.Name == "fmt" && slices.Contains(output, n.Sel.Name)) {
					t.Errorf("%s uses %s.%s: the time comes with the snapshot", f.Name(), x.Name, n.Sel.Name)
				}
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", f.Name())
			}
			return true
		})
	}
	if parsed < 5 {
		t.Fatalf("only %d files were looked at", parsed)
	}
}
