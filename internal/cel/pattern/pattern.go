// Package pattern matches untrusted strings with untrusted regular expressions in bounded time.
//
// The time of Go's regexp is proportional to the length of the string and to the number of states
// of the expression: [a-z]{1,1000} has a thousand states, and a string of 1 MB takes more than a
// minute. Finding all matches may take quadratic time. Matching cannot be interrupted, except if
// the string is read rune by rune, which is slower. Matcher therefore reads long strings rune by
// rune.
package pattern

import (
	"cmp"
	"io"
	"regexp"
	"regexp/syntax"
	"time"
	"unicode/utf8"
)

const (
	// DefaultLimit is the default of Matcher.Limit.
	DefaultLimit = 5 * time.Second
	// maxUnchecked is the number of bytes that a Matcher matches with the fastest method, without
	// time checks. maxUncheckedAll is the maximum length of a string for FindAll.
	maxUnchecked    = 4 << 10
	maxUncheckedAll = 256
	// maxContextual is the maximum length of a string in which FindAll searches for a contextual
	// expression. Longer strings count as a timeout.
	maxContextual = 16 << 10
	// checkInterval is the number of runes between two checks of the time.
	checkInterval = 1 << 10
)

// Matcher limits the total time of several matches. The limit applies only to strings that are long or that
// follow many other strings. The zero value is ready for use. It is not safe for concurrent use.
type Matcher struct {
	// Limit is the maximum total time for the long strings; 0 selects DefaultLimit. The time starts with the
	// first long string.
	Limit time.Duration

	read     int
	deadline time.Time
}

// Match reports whether an expression matches a string. If inTime is false, the time limit was
// exceeded and matches is meaningless.
func (w *Matcher) Match(re *regexp.Regexp, text string) (matches, inTime bool) {
	if w.isShort(text) {
		return re.MatchString(text), true
	}
	r := w.reader(text)
	matches = re.MatchReader(r)
	return matches, !r.timedOut
}

// Find returns the first match, or "" if there is none. If inTime is false, the time limit was
// exceeded and found is meaningless.
func (w *Matcher) Find(re *regexp.Regexp, text string) (found string, inTime bool) {
	if w.isShort(text) {
		return re.FindString(text), true
	}
	r := w.reader(text)
	if at := re.FindReaderIndex(r); at != nil {
		found = text[at[0]:at[1]]
	}
	return found, !r.timedOut
}

// FindAll returns the non-overlapping matches, at most limit unless it is negative. If the time
// limit is exceeded, it returns nil and false.
func (w *Matcher) FindAll(re *regexp.Regexp, text string, limit int) (found []string, inTime bool) {
	if len(text) <= maxUncheckedAll || limit == 0 {
		return re.FindAllString(text, limit), true
	}
	if isContextual(re) { // matching cannot start in the middle of the string
		if len(text) > maxContextual {
			return nil, false
		}
		if _, inTime := w.Find(re, text); !inTime {
			return nil, false
		}
		return re.FindAllString(text, limit), true
	}
	for at, after := 0, -1; at <= len(text) && (limit < 0 || len(found) < limit); {
		r := w.reader(text[at:])
		match := re.FindReaderIndex(r)
		if r.timedOut {
			return nil, false
		}
		if match == nil {
			break
		}
		from, to := at+match[0], at+match[1]
		if from < to || from != after { // like package regexp, omit an empty match directly after a match
			found = append(found, text[from:to])
		}
		after = to
		if at = to; from == to {
			_, size := utf8.DecodeRuneInString(text[at:])
			at += max(size, 1)
		}
	}
	return found, true
}

// isContextual reports whether an expression has assertions about the preceding text.
func isContextual(re *regexp.Regexp) bool {
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return true
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return true
	}
	const behind = syntax.EmptyBeginLine | syntax.EmptyBeginText | syntax.EmptyWordBoundary | syntax.EmptyNoWordBoundary
	for _, i := range program.Inst {
		if i.Op == syntax.InstEmptyWidth && syntax.EmptyOp(i.Arg)&behind != 0 {
			return true
		}
	}
	return false
}

func (w *Matcher) isShort(text string) bool {
	w.read += len(text)
	return w.read <= maxUnchecked
}

func (w *Matcher) reader(text string) *reader {
	now := time.Now()
	if w.deadline.IsZero() {
		w.deadline = now.Add(cmp.Or(w.Limit, DefaultLimit))
	}
	return &reader{text: text, deadline: w.deadline, timedOut: now.After(w.deadline)}
}

// reader reads a string, and returns io.EOF early after the deadline.
type reader struct {
	text     string
	at, n    int
	deadline time.Time
	timedOut bool
}

var _ io.RuneReader = (*reader)(nil)

// ReadRune implements io.RuneReader.
func (r *reader) ReadRune() (rune, int, error) {
	if r.n++; r.n%checkInterval == 0 && time.Now().After(r.deadline) {
		r.timedOut = true
	}
	if r.timedOut || r.at >= len(r.text) {
		return 0, 0, io.EOF
	}
	c, size := utf8.DecodeRuneInString(r.text[r.at:])
	r.at += size
	return c, size, nil
}
