// Package pattern matches untrusted texts with untrusted regular expressions in bounded time. The
// time of Go's regexp is proportional to the text and to the states of the expression, of which
// [a-z]{1,1000} has a thousand: a text of 1 MB takes more than a minute. Finding all matches may
// take quadratic time. Matching cannot be interrupted, except if the text is read rune by rune.
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
	// Patience is how long a Watch matches long texts.
	Patience = 5 * time.Second
	// short is the number of bytes that a Watch matches without a time check, with the fastest
	// method; for all matches, it is shortest.
	short    = 4 << 10
	shortest = 256
	// longAround is from where on all matches of an expression that looks around are
	// not looked for.
	longAround = 16 << 10
	// checked is after how many runes the time is looked at.
	checked = 1 << 10
)

// A Watch bounds the total time of matching. The zero value is ready for use. It is not safe for
// concurrent use.
type Watch struct {
	// Limit is how long long texts may take together; 0 means Patience.
	Limit time.Duration

	read  int
	until time.Time
}

// Match reports whether an expression matches a text; inTime is false if the time limit was
// exceeded.
func (w *Watch) Match(re *regexp.Regexp, text string) (matches, inTime bool) {
	if w.isShort(text) {
		return re.MatchString(text), true
	}
	r := w.reader(text)
	matches = re.MatchReader(r)
	return matches, !r.late
}

// Find returns the first match, or "".
func (w *Watch) Find(re *regexp.Regexp, text string) (found string, inTime bool) {
	if w.isShort(text) {
		return re.FindString(text), true
	}
	r := w.reader(text)
	if at := re.FindReaderIndex(r); at != nil {
		found = text[at[0]:at[1]]
	}
	return found, !r.late
}

// FindAll returns the matches, limit of them at the most if that is not negative.
func (w *Watch) FindAll(re *regexp.Regexp, text string, limit int) (found []string, inTime bool) {
	if len(text) <= shortest || limit == 0 {
		return re.FindAllString(text, limit), true
	}
	if looksAround(re) { // and requires the text before a match
		if len(text) > longAround {
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
		if r.late {
			return nil, false
		}
		if match == nil {
			break
		}
		from, to := at+match[0], at+match[1]
		if from < to || from != after { // as in package regexp: no empty match right after a match
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

// looksAround reports whether an expression has assertions on the preceding text.
func looksAround(re *regexp.Regexp) bool {
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

func (w *Watch) isShort(text string) bool {
	w.read += len(text)
	return w.read <= short
}

func (w *Watch) reader(text string) *reader {
	now := time.Now()
	if w.until.IsZero() {
		w.until = now.Add(cmp.Or(w.Limit, Patience))
	}
	return &reader{text: text, until: w.until, late: now.After(w.until)}
}

// reader is a text that ends when time is over.
type reader struct {
	text  string
	at, n int
	until time.Time
	late  bool
}

var _ io.RuneReader = (*reader)(nil)

// ReadRune implements io.RuneReader.
func (r *reader) ReadRune() (rune, int, error) {
	if r.n++; r.n%checked == 0 && time.Now().After(r.until) {
		r.late = true
	}
	if r.late || r.at >= len(r.text) {
		return 0, 0, io.EOF
	}
	c, size := utf8.DecodeRuneInString(r.text[r.at:])
	r.at += size
	return c, size, nil
}
