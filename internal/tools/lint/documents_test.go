package lint

import (
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// document is a Markdown file of the repository.
type document struct {
	text    string          // without code blocks
	anchors map[string]bool // anchors of the headings
	links   []link
}

// link is a relative link in a document.
type link struct {
	target string // path from the root of the repository
	anchor string // without "#"; empty if the link has none
}

var (
	linkPattern    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	codePattern    = regexp.MustCompile("`([^`\n]+)`")
	notInAnchor    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// documents returns all Markdown files by path from the root of the repository.
func documents(t *testing.T) (root string, found map[string]document) {
	t.Helper()
	root, err := moduleDir()
	if err != nil {
		t.Fatal(err)
	}
	found = map[string]document{}
	for _, name := range files(t, root, ".md") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		found[name] = parseDocument(name, string(text))
	}
	return root, found
}

// files returns the files below root that have one of the suffixes, as slash-separated paths relative to root.
// It omits test data and npm packages.
func files(t *testing.T, root string, suffixes ...string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "testdata", "node_modules"}, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		if slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) }) {
			relative, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			names = append(names, filepath.ToSlash(relative))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func parseDocument(name, text string) document {
	d := document{text: withoutCodeBlocks(text), anchors: map[string]bool{}}
	for _, heading := range headingPattern.FindAllStringSubmatch(d.text, -1) {
		d.anchors[headingAnchor(heading[1])] = true
	}
	for _, match := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(d.text, ""), -1) {
		target, err := url.Parse(match[1])
		if err != nil || target.IsAbs() {
			continue
		}
		l := link{target: name, anchor: target.Fragment}
		if target.Path != "" {
			l.target = path.Join(path.Dir(name), target.Path)
		}
		d.links = append(d.links, l)
	}
	return d
}

// withoutCodeBlocks removes fenced and indented code blocks.
func withoutCodeBlocks(text string) string {
	var kept strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case !fenced && !strings.HasPrefix(line, "    "):
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// headingAnchor returns the anchor that GitHub creates for a heading.
func headingAnchor(heading string) string {
	heading = linkTextPattern.ReplaceAllString(heading, "$1")
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

var linkTextPattern = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// TestLinks checks that the target and the anchor of each relative link in a document exist.
func TestLinks(t *testing.T) {
	t.Parallel()
	root, all := documents(t)
	for name, d := range all {
		for _, l := range d.links {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(l.target))); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, l.target)
			} else if target, ok := all[l.target]; ok && l.anchor != "" && !target.anchors[l.anchor] {
				t.Errorf("%s links to %s#%s, but the heading does not exist", name, l.target, l.anchor)
			}
		}
	}
}

// TestPagesAreReachable checks that each page in docs can be reached by following links from README.md or
// docs/README.md.
func TestPagesAreReachable(t *testing.T) {
	t.Parallel()
	_, all := documents(t)
	reached := map[string]bool{}
	queue := []string{"README.md", "docs/README.md"}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if reached[name] {
			continue
		}
		reached[name] = true
		for _, l := range all[name].links {
			queue = append(queue, l.target)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "docs/") && !reached[name] {
			t.Errorf("no link leads to %s", name)
		}
	}
}

// TestPagesStartWithTheirPurpose checks that each page begins with a statement of what the reader can do after
// reading it.
func TestPagesStartWithTheirPurpose(t *testing.T) {
	t.Parallel()
	_, all := documents(t)
	decision := regexp.MustCompile(`^docs/adr/[0-9]`)
	for name, d := range all {
		if !strings.HasPrefix(name, "docs/") || decision.MatchString(name) {
			continue
		}
		_, body, _ := strings.Cut(d.text, "\n")
		if !strings.HasPrefix(strings.TrimSpace(body), "After reading this page you ") {
			t.Errorf("%s does not start with \"After reading this page you ...\"", name)
		}
	}
}

// TestDecisionRecords checks that each decision record has the required title, date, status and sections.
func TestDecisionRecords(t *testing.T) {
	t.Parallel()
	_, all := documents(t)
	shape := regexp.MustCompile(`(?s)^# ADR \d+: .*\n\nDate: \d{4}-\d\d-\d\d\. Status: .*\n## Context\n.*\n## Decision\n.*\n## Consequences\n.*\n## Alternatives\n`)
	for name, d := range all {
		if regexp.MustCompile(`^docs/adr/[0-9]`).MatchString(name) && !shape.MatchString(d.text) {
			t.Errorf("%s does not have a title, a date, a status and the four sections in order", name)
		}
	}
}

// TestNamedPathsExist checks that the repository paths in backticks in some pages exist. The paths are relative
// to the root, to internal or to docs.
func TestNamedPathsExist(t *testing.T) {
	t.Parallel()
	root, all := documents(t)
	named := regexp.MustCompile(`^\.?[a-zA-Z0-9_-]+(/[a-zA-Z0-9_.-]+)+$`)
	for _, name := range []string{"CONTRIBUTING.md", "docs/internals/architecture.md", "docs/internals/concurrency.md"} {
		for _, code := range codePattern.FindAllStringSubmatch(all[name].text, -1) {
			for word := range strings.FieldsSeq(code[1]) {
				if !named.MatchString(word) || isOtherPath(word) {
					continue
				}
				if !pathExists(root, word) {
					t.Errorf("%s names %s, which does not exist", name, word)
				}
			}
		}
	}
}

// TestNamedDeclarationsExist checks that declarations in backticks, such as `kv.Backend` and `Backend.Hold`,
// exist in a Go file. It checks only the last part of the name.
func TestNamedDeclarationsExist(t *testing.T) {
	t.Parallel()
	root, all := documents(t)
	identifiers := map[string]bool{}
	for _, name := range files(t, root, ".go") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for word := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			identifiers[word] = true
		}
	}
	qualified := regexp.MustCompile(`^((?:[A-Za-z]\w*\.)+)([A-Za-z]\w*)$`)
	other := regexp.MustCompile(`^(http|spec|status|metadata)\.|^(go|md|mod|json|tsv|sum|svg|yaml)$`) // net/http, fields of objects, files
	for name, d := range all {
		if !strings.HasPrefix(name, "docs/internals/") && !strings.HasPrefix(name, "docs/adr/") {
			continue
		}
		for _, code := range codePattern.FindAllStringSubmatch(d.text, -1) {
			if m := qualified.FindStringSubmatch(code[1]); m != nil && !other.MatchString(m[1]) && !other.MatchString(m[2]) && !identifiers[m[2]] {
				t.Errorf("%s names %s, which does not exist", name, code[1])
			}
		}
	}
}

// isOtherPath reports whether a word looks like a repository path but is a path of a Go module, in a data
// directory, or in the API.
func isOtherPath(word string) bool {
	first, _, _ := strings.Cut(word, "/")
	switch first {
	case "k8s.io", "net", "DATA-DIR", "pki", "services", "ranges":
		return true
	}
	return false
}

// pathExists reports whether a word is a path below the root, internal or docs, or such a path followed by
// the name of a declaration, as in storage/cache.Feed or storage/cache.Feed.Run.
func pathExists(root, word string) bool {
	for {
		for _, folder := range []string{"", "internal", "docs"} {
			if _, err := os.Stat(filepath.Join(root, folder, filepath.FromSlash(word))); err == nil {
				return true
			}
		}
		dot := strings.LastIndexByte(word, '.')
		if dot <= strings.LastIndexByte(word, '/') {
			return false
		}
		word = word[:dot]
	}
}

// TestDocumentsExist checks that every document path in a Markdown or Go file exists.
func TestDocumentsExist(t *testing.T) {
	t.Parallel()
	root, err := moduleDir()
	if err != nil {
		t.Fatal(err)
	}
	reference := regexp.MustCompile(`\bdocs/[A-Za-z0-9/_-]+\.(md|svg)\b`)
	for _, name := range files(t, root, ".md", ".go") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, mentioned := range reference.FindAllString(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, mentioned)); err != nil {
				t.Errorf("%s names %s, which does not exist", name, mentioned)
			}
		}
	}
}

// TestNamedTestsExist checks that the tests mentioned in documents and in messages of skipped tests exist. A
// mentioned name must be the name of a test function or a prefix of such a name.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	root, all := documents(t)
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	skipped := regexp.MustCompile(`\.Skipf?\(".*"`)
	testName := regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w*`)
	mentioned, existing := map[string]string{}, []string{}
	for name, d := range all {
		mentioned[name] = d.text
	}
	for _, name := range files(t, root, "_test.go") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range function.FindAllSubmatch(text, -1) {
			existing = append(existing, string(match[1]))
		}
		for _, message := range skipped.FindAll(text, -1) {
			mentioned[name] += string(message)
		}
	}
	slices.Sort(existing)
	for name, text := range mentioned {
		for _, test := range testName.FindAllString(text, -1) {
			if i, _ := slices.BinarySearch(existing, test); i == len(existing) || !strings.HasPrefix(existing[i], test) {
				t.Errorf("%s mentions %s, which does not exist", name, test)
			}
		}
	}
}
