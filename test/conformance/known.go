package conformance

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Known maps steps of one recording to a reason. Its file has a line for each scenario and reason:
//
//	scenario<TAB>steps<TAB>reason
//
// where steps contains numbers and ranges, as in 3,5-9.
type Known map[stepKey]string

type stepKey struct {
	scenario string
	step     int
}

// ReadKnown reads the file at path. If the file does not exist, it returns an empty Known.
func ReadKnown(path string) (Known, error) {
	known := Known{}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := known.add(line); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return known, lines.Err()
}

func (k Known) add(line string) error {
	fields := strings.SplitN(line, "\t", 3)
	if len(fields) != 3 || strings.TrimSpace(fields[2]) == "" {
		return fmt.Errorf("%q is not scenario, steps and reason", line)
	}
	steps, err := parseSteps(fields[1])
	if err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	for _, step := range steps {
		k[stepKey{fields[0], step}] = fields[2]
	}
	return nil
}

func parseSteps(text string) ([]int, error) {
	var steps []int
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			return nil, err
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil {
				return nil, err
			}
		}
		for step := first; step <= last; step++ {
			steps = append(steps, step)
		}
	}
	return steps, nil
}

func formatSteps(steps []int) string {
	slices.Sort(steps)
	var parts []string
	for i := 0; i < len(steps); {
		j := i
		for j+1 < len(steps) && steps[j+1] == steps[j]+1 {
			j++
		}
		part := strconv.Itoa(steps[i])
		if j > i {
			part += "-" + strconv.Itoa(steps[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// Write writes k to a file, sorted by the number of steps for each reason. If k is empty, Write removes the
// file.
func (k Known) Write(path string) error {
	if len(k) == 0 {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	byReason := map[string]map[string][]int{}
	counts := map[string]int{}
	for key, reason := range k {
		if byReason[reason] == nil {
			byReason[reason] = map[string][]int{}
		}
		byReason[reason][key.scenario] = append(byReason[reason][key.scenario], key.step)
		counts[reason]++
	}
	reasons := make([]string, 0, len(counts))
	for reason := range counts {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var text strings.Builder
	text.WriteString("# Steps that do not match their recording yet, by reason. Written by `go test ./test/conformance -update`.\n")
	for _, reason := range reasons {
		scenarios := byReason[reason]
		names := make([]string, 0, len(scenarios))
		for name := range scenarios {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(&text, "\n# %d of: %s\n", counts[reason], reason)
		for _, name := range names {
			fmt.Fprintf(&text, "%s\t%s\t%s\n", name, formatSteps(scenarios[name]), reason)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

var index = regexp.MustCompile(`\[\d+\]`)

// cause derives a reason from the first difference of a step. The reason is general enough for several steps to
// have the same one.
func cause(differences []string) string {
	text := strings.ReplaceAll(differences[0], "\t", " ")
	text, _, _ = strings.Cut(text, "\n")
	text = index.ReplaceAllString(withoutVolatile(text, "…"), "[]")
	if len(text) > 110 {
		text = strings.ToValidUTF8(text[:110], "") + "…"
	}
	return text
}
