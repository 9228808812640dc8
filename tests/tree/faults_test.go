package tree

import (
	"regexp"
	"strings"
	"testing"
)

var testName = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")

// The page of known faults promises tests: each must exist, and say in its comment which row it keeps out.
func TestKnownFaultsAreKeptOut(t *testing.T) {
	t.Parallel()
	tree := repository(t)
	comments := map[string]string{}
	function := regexp.MustCompile(`(?m)((?:^//.*\n)+)func (Test\w+)\(`)
	for _, name := range tree.ending("_test.go") {
		for _, m := range function.FindAllStringSubmatch(tree.text(t, name), -1) {
			comments[m[2]] += m[1]
		}
	}
	rows := 0
	for line := range strings.Lines(tree.text(t, "docs/reference/known-faults.md")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "A") {
			continue
		}
		rows++
		for _, m := range testName.FindAllStringSubmatch(cells[3], -1) {
			comment, ok := comments[m[1]]
			if !ok {
				t.Errorf("%s names %s, which does not exist or has no comment", cells[1], m[1])
				continue
			}
			for id := range strings.SplitSeq(cells[1], ",") {
				if id = strings.TrimSpace(id); !regexp.MustCompile(`\b` + id + `\b`).MatchString(comment) {
					t.Errorf("%s does not say that it keeps out %s: %s", m[1], id, comment)
				}
			}
		}
	}
	if rows < 20 {
		t.Errorf("the page has %d rows", rows)
	}
}
