// Package pattern matches untrusted strings with untrusted regular expressions in bounded time.
//
// The time that Go's regexp takes is proportional to the length of the string and to the number of states of
// the expression. For example, [a-z]{1,1000} has a thousand states, and matching a string of 1 MB takes more
// than a minute. Finding all matches may take quadratic time. Matching cannot be interrupted unless the string
// is read rune by rune, which is slower. Matcher therefore reads only long strings rune by rune.
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
	// DefaultLimit is the default value of Matcher.Limit.
	DefaultLimit = 5 * time.Second
	// maxUnchecked is the total number of bytes that a Matcher matches with the fastest method, which does not
	// check the time. maxUncheckedAll is the maximum length of a string for which FindAll uses this method.
	maxUnchecked    = 4 << 10
	maxUncheckedAll = 256
	// maxContextual is the maximum length of a string in which FindAll searches for a contextual expression
	// (see isContextual). A longer string is treated as a timeout.
	maxContextual = 16 << 10
	// checkInterval is the number of runes between two checks of the time.
	checkInterval = 1 << 10
)

// Matcher limits the total time for several matches. The limit applies only to long strings and to strings that
// follow many other strings. The zero value is ready for use. A Matcher is not safe for concurrent use.
type Matcher struct {
	// Limit is the maximum total time for matching such strings; 0 selects DefaultLimit. The time starts with
	// the first of them.
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

// FindAll returns the non-overlapping matches, but at most limit matches unless limit is negative. If the time
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

// isContextual reports whether an expression contains assertions about the text that precedes a match.
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

// reader reads a string rune by rune. It returns io.EOF before the end of the string if the deadline has
// passed.
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
