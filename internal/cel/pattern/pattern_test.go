package pattern

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const costly = `^([a-z]{1,1000}|[a-y]{1,1000}-)*$`

func TestTimeout(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("b", 1<<20)
	re := regexp.MustCompile(costly)
	for name, match := range map[string]func(w *Matcher) bool{
		"match":       func(w *Matcher) bool { _, inTime := w.Match(re, long); return inTime },
		"find":        func(w *Matcher) bool { _, inTime := w.Find(re, long); return inTime },
		"all, around": func(w *Matcher) bool { _, inTime := w.FindAll(re, long, -1); return inTime },
		"all":         func(w *Matcher) bool { _, inTime := w.FindAll(regexp.MustCompile(`.*x|.`), long, -1); return inTime },
		"many texts": func(w *Matcher) bool {
			inTime := true
			for range 1 << 10 {
				_, inTime = w.Match(re, long[:1<<10])
			}
			return inTime
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if match(&Matcher{Limit: time.Millisecond}) {
				t.Error("the match did not time out")
			}
		})
	}
}

func TestWithinLimit(t *testing.T) {
	t.Parallel()
	w := Matcher{Limit: time.Hour}
	long := strings.Repeat("ab-", 1<<17)
	if matches, inTime := w.Match(regexp.MustCompile(`^[-a-z]+$`), long); !matches || !inTime {
		t.Errorf("matches: %v, in time: %v", matches, inTime)
	}
	if found, inTime := w.Find(regexp.MustCompile(`b-(ab-)*`), long); !inTime || len(found) != len(long)-1 {
		t.Errorf("found %d bytes, in time: %v", len(found), inTime)
	}
	if found, inTime := w.FindAll(regexp.MustCompile(`-a`), long, 1000); !inTime || len(found) != 1000 {
		t.Errorf("found %d, in time: %v", len(found), inTime)
	}
}

// FuzzMatcher compares the results with those of package regexp.
func FuzzMatcher(f *testing.F) {
	f.Add(`a*`, "baac", 7)
	f.Add(`b|`, "abc\xff", -1)
	f.Add(`\bx|^y|z$`, "x yx z", 2)
	f.Add(`(?m)$|.`, "a\nb", -1)
	f.Add(`.*x|.`, "aaxa", -1)
	f.Fuzz(func(t *testing.T, expression, text string, limit int) {
		re, err := regexp.Compile(expression)
		if err != nil || len(text) > 64 {
			return
		}
		for _, text := range []string{text, strings.Repeat(text, 1+2*maxUncheckedAll/max(1, len(text)))} {
			w := Matcher{read: maxUnchecked, Limit: time.Hour}
			if got, inTime := w.Match(re, text); !inTime || got != re.MatchString(text) {
				t.Errorf("match: %v, in time: %v", got, inTime)
			}
			if got, inTime := w.Find(re, text); !inTime || got != re.FindString(text) {
				t.Errorf("find: %q, in time: %v", got, inTime)
			}
			got, inTime := w.FindAll(re, text, limit)
			if diff := cmp.Diff(re.FindAllString(text, limit), got); !inTime || diff != "" {
				t.Errorf("in time: %v, all (-want +got):\n%s", inTime, diff)
			}
		}
	})
}
