package tree

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// kinds are the four folders of docs.
var kinds = []string{"docs/tutorial", "docs/how-to", "docs/reference", "docs/explanation"}

// loose are the pages that may lie beside the folders.
var loose = []string{"docs/README.md", "docs/performance.md"}

// index links every page.
const index = "docs/README.md"

var (
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	linkForm   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`^#{1,6} +(.+?) *#*$`)
)

// prose returns a page's lines, empty where they are in a code block.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	fence := ""
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
			lines[i] = ""
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
			lines[i] = ""
		}
	}
	return lines
}

// links returns the targets of a page's links.
func links(text string) []string {
	var out []string
	for _, line := range prose(text) {
		for _, m := range linkForm.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
			out = append(out, m[1])
		}
	}
	return out
}

// anchors returns the names by which GitHub lets a link reach a page's headings.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, line := range prose(text) {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		var b strings.Builder
		for _, r := range strings.ToLower(m[1]) {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				b.WriteRune(r)
			case r == ' ':
				b.WriteByte('-')
			}
		}
		name := b.String()
		for n := 1; out[name]; n++ {
			name = fmt.Sprintf("%s-%d", b.String(), n)
		}
		out[name] = true
	}
	return out
}

// checkLinks wants every relative link, in any page of the tree, to lead somewhere.
func checkLinks(t *testing.T, s source) []string {
	t.Helper()
	var problems []string
	for _, page := range s.ending(".md") {
		for _, link := range links(s.text(t, page)) {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			target, anchor, _ := strings.Cut(link, "#")
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(file))); err != nil || strings.HasPrefix(file, "..") {
				problems = append(problems, fmt.Sprintf("%s links to %s, which does not exist", page, link))
				continue
			}
			if anchor != "" && !anchors(s.text(t, file))[anchor] {
				problems = append(problems, fmt.Sprintf("%s links to %s, which has no such heading", page, link))
			}
		}
	}
	return problems
}

// checkShelves wants every page of docs in one of the four folders, and on the index.
func checkShelves(t *testing.T, s source) []string {
	t.Helper()
	var problems []string
	linked := map[string]bool{}
	if slices.Contains(s.files, index) {
		for _, link := range links(s.text(t, index)) {
			target, _, _ := strings.Cut(link, "#")
			linked[path.Join(path.Dir(index), target)] = true
		}
	}
	for _, page := range s.ending(".md") {
		if !under(page, "docs") || page == index {
			continue
		}
		if !slices.Contains(loose, page) && !slices.Contains(kinds, path.Dir(page)) {
			problems = append(problems, fmt.Sprintf("%s is in none of %s", page, strings.Join(kinds, ", ")))
		}
		if !linked[page] {
			problems = append(problems, fmt.Sprintf("%s is not linked from %s", page, index))
		}
	}
	return problems
}

func TestDocs(t *testing.T) {
	t.Parallel()
	s := repository(t)
	if len(s.ending(".md")) < 8 {
		t.Fatalf("only %d pages were found", len(s.ending(".md")))
	}
	report(t, checkLinks(t, s))
	report(t, checkShelves(t, s))
}

func TestLinksObject(t *testing.T) {
	t.Parallel()
	const good = "# A page\n\n## Two words, and `code`\n\n## Two words, and `code`\n"
	for _, tt := range []struct {
		name, text, word string
	}{
		{"no such page", "[x](none.md)", "none.md, which does not exist"},
		{"no such heading", "[x](good.md#three)", "no such heading"},
		{"no such heading here", "# One\n[x](#two)", "no such heading"},
		{"out of the tree", "[x](../good.md)", "does not exist"},
		{"a good page", "[x](good.md)", ""},
		{"a good heading", "[x](good.md#two-words-and-code)", ""},
		{"the second of that name", "[x](good.md#two-words-and-code-1)", ""},
		{"another site", "[x](https://example.test/none.md)", ""},
		{"code", "`[x](none.md)`\n\n```\n[x](none.md)\n```\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := checkLinks(t, plant(t, map[string]string{"good.md": good, "page.md": tt.text}))
			if tt.word == "" {
				report(t, got)
				return
			}
			wantOne(t, got, "page.md", tt.word)
		})
	}
}

func TestShelvesObject(t *testing.T) {
	t.Parallel()
	wantOne(t, checkShelves(t, plant(t, map[string]string{"docs/README.md": "[x](notes.md)", "docs/notes.md": ""})), "docs/notes.md is in none")
	wantOne(t, checkShelves(t, plant(t, map[string]string{"docs/README.md": "", "docs/how-to/x.md": ""})), "not linked")
	wantOne(t, checkShelves(t, plant(t, map[string]string{"docs/README.md": "[x](how-to/x/y.md)", "docs/how-to/x/y.md": ""})), "is in none")
	report(t, checkShelves(t, plant(t, map[string]string{
		"docs/README.md": "[x](how-to/x.md) [y](performance.md#z)", "docs/how-to/x.md": "", "docs/performance.md": "# z\n", "README.md": "",
	})))
}
