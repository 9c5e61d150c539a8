package conformance

import (
	"regexp"
	"strings"
)

// Memory maps recorded values to live values in one scenario. It is not safe for concurrent use.
type Memory struct {
	// sent contains the text of all recorded requests so far. Values that the client chose are not generated
	// and must be returned unchanged.
	sent strings.Builder

	loose    map[string]string // times, continue tokens: recorded -> live; many may share one
	live     map[string]string // uids, addresses, tokens: recorded -> live
	recorded map[string]string // uids, addresses, tokens: live -> recorded

	names     map[string]string // generated names: recorded -> live
	liveNames map[string]string

	// The resourceVersion of a single object identifies a write, so these values are mapped one to one. The
	// resourceVersions of lists and bookmarks are lower bounds; they are only used to rewrite requests.
	revisions     map[string]string
	liveRevisions map[string]string
	listRevisions map[string]string
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{
		loose:         map[string]string{},
		live:          map[string]string{},
		recorded:      map[string]string{},
		names:         map[string]string{},
		liveNames:     map[string]string{},
		revisions:     map[string]string{},
		liveRevisions: map[string]string{},
		listRevisions: map[string]string{},
	}
}

// Sent records the text of a request before the request is rewritten for the live server. Values that earlier
// responses contained do not count as chosen by the client.
func (m *Memory) Sent(text string) {
	if strings.Contains(text, "odePort") {
		text = quotedPort.ReplaceAllStringFunc(text, func(field string) string {
			if port := quotedPort.FindStringSubmatch(field)[2]; m.Value(port) != port {
				return ""
			}
			return field
		})
	}
	m.sent.WriteString(replaceVolatile(text, func(token string) string {
		if m.Value(token) != token {
			return ""
		}
		return token
	}))
	m.sent.WriteByte('\n')
}

// Chosen reports whether the client sent the value before the server first returned it.
func (m *Memory) Chosen(value string) bool {
	_, invented := m.live[value]
	return !invented && strings.Contains(m.sent.String(), value)
}

// Pair records that the values correspond to each other. It returns false if one of them already corresponds to
// a different value.
func (m *Memory) Pair(recorded, live string) bool {
	return pair(m.live, m.recorded, recorded, live)
}

// PairName is like Pair, but for names that the server generated from a generateName.
func (m *Memory) PairName(recorded, live string) bool {
	return pair(m.names, m.liveNames, recorded, live)
}

// PairRevision is like Pair, but for the resourceVersions of objects.
func (m *Memory) PairRevision(recorded, live string) bool {
	return pair(m.revisions, m.liveRevisions, recorded, live)
}

// KnowsRevision reports whether the recorded resourceVersion of an object is paired with a live one.
func (m *Memory) KnowsRevision(recorded string) bool {
	_, known := m.revisions[recorded]
	return known
}

// ReplaceRevision pairs two resourceVersions, and removes earlier pairs that contain one of them.
func (m *Memory) ReplaceRevision(recorded, live string) {
	delete(m.revisions, m.liveRevisions[live])
	delete(m.liveRevisions, m.revisions[recorded])
	m.revisions[recorded], m.liveRevisions[live] = live, recorded
}

// Learn records the live value that replaces a recorded value in later requests. Several recorded values can
// have the same live value.
func (m *Memory) Learn(recorded, live string) { m.loose[recorded] = live }

// LearnListRevision records the resourceVersion of a list or bookmark.
func (m *Memory) LearnListRevision(recorded, live string) {
	if _, known := m.listRevisions[recorded]; !known {
		m.listRevisions[recorded] = live
	}
}

func pair(forth, back map[string]string, recorded, live string) bool {
	l, known := forth[recorded]
	r, taken := back[live]
	if !known && !taken {
		forth[recorded], back[live] = live, recorded
		return true
	}
	return known && taken && l == live && r == recorded
}

// Revision returns the live value for a recorded resourceVersion, or the recorded value if none is known. "0"
// is returned unchanged, because it does not identify a revision.
func (m *Memory) Revision(recorded string) string {
	if recorded == "0" {
		return recorded
	}
	for _, known := range []map[string]string{m.revisions, m.listRevisions} {
		if live, ok := known[recorded]; ok {
			return live
		}
	}
	return recorded
}

// Value returns the live value for a complete recorded value, or the recorded value if none is known.
func (m *Memory) Value(recorded string) string {
	for _, known := range []map[string]string{m.live, m.loose} {
		if live, ok := known[recorded]; ok {
			return live
		}
	}
	return recorded
}

// volatile matches values in a text that are recognizable as generated.
var volatile = regexp.MustCompile(uuidPattern + `|` + timePattern + `|` + hashPattern + `|` + clusterIPPattern + `|` + tokenVolumePattern + `|` + tokenPattern)

// mayBeVolatile reports whether a text may match volatile, by looking at each byte once. The regular expression
// is a hundred times slower, and most texts do not match it.
func mayBeVolatile(text string) bool {
	hex := 0
	for i := range len(text) {
		c := text[i]
		if '0' <= c && c <= '9' || 'A' <= c && c <= 'F' {
			hex++
			if hex == 128 { // a hash
				return true
			}
			continue
		}
		hex = 0
		if c == '-' && (i+5 < len(text) && text[i+5] == '-' || i+3 < len(text) && text[i+3] == '-') { // a uuid, or a time
			return true
		}
	}
	return strings.Contains(text, "10.") || strings.Contains(text, "kube-api-access-") || strings.Contains(text, "eyJ")
}

// replaceVolatile replaces each match of volatile with the result of by. It applies the regular expression only
// to words that may match, because bodies are large and contain few generated values.
func replaceVolatile(text string, by func(string) string) string {
	if !mayBeVolatile(text) {
		return text
	}
	var replaced strings.Builder
	for len(text) > 0 {
		word := text[:wordEnd(text)]
		text = text[len(word):]
		if mayBeVolatile(word) {
			word = volatile.ReplaceAllStringFunc(word, by)
		}
		replaced.WriteString(word)
	}
	return replaced.String()
}

// withoutVolatile replaces each match of volatile with a constant.
func withoutVolatile(text, constant string) string {
	return replaceVolatile(text, func(string) string { return constant })
}

// wordEnd returns the length of the first word of a text, including the separator that follows it. No match of
// volatile contains a separator.
func wordEnd(text string) int {
	for i := range len(text) {
		if c := text[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte("_-.:+{}", c) >= 0) {
			return i + 1
		}
	}
	return len(text)
}

const (
	uuidPattern        = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`
	hashPattern        = `\b[0-9A-F]{128}\b` // of an OpenAPI document
	tokenVolumePattern = `\bkube-api-access-[a-z0-9]{5}\b`
	// clusterIPPattern matches addresses in the default range for services, 10.96.0.0/12.
	clusterIPPattern = `\b10\.(?:9[6-9]|10\d|11[01])\.\d{1,3}\.\d{1,3}\b`
	timePattern      = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)`
)

var (
	uuid        = regexp.MustCompile(`^` + uuidPattern + `$`)
	timestamp   = regexp.MustCompile(`^` + timePattern + `$`)
	hash        = regexp.MustCompile(`^` + hashPattern + `$`)
	tokenVolume = regexp.MustCompile(`^` + tokenVolumePattern + `$`)
	clusterIP   = regexp.MustCompile(`^` + clusterIPPattern + `$`)
)

// unspecified lists parts of messages and names on which clients cannot rely, with their replacements.
var unspecified = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`(resource version: )\d+ \(\d+\)`), "${1}N (N)"},
	{regexp.MustCompile(`(Too large resource version: \d+, current: )\d+`), "${1}N"},
	{regexp.MustCompile(`(ResourceVersion in (?:record|object meta): )\d+`), "${1}N"},
	{regexp.MustCompile(`(ResourceVersion in record \()\d+(\))`), "${1}N${2}"},
	{regexp.MustCompile(`(resourceVersion\\*":\s*\\*")\d+`), "${1}N"},
	{regexp.MustCompile(`-----BEGIN ([A-Z ]+)-----[^-]*-----END [A-Z ]+-----`), "a PEM block of ${1}"},
	{regexp.MustCompile(` in scheme "[^"]*"`), ""},                 // a line of the recorded server's source
	{regexp.MustCompile(`(Go value of type )[\w.\[\]]+`), "${1}T"}, // a Go type in the recorded server
	{regexp.MustCompile(`\bX509SHA256=[0-9a-f]{64}`), "the id of a certificate"},
	{regexp.MustCompile(`(\b\d+:)\d+(/(?:TCP|UDP|SCTP)\b)`), "${1}N${2}"}, // port:nodePort in tables
	{regexp.MustCompile(`\d+\.\d+(?:µs|ms|s)\b`), "0s"},
}

func withoutUnpromised(text string) string {
	for _, u := range unspecified {
		text = u.pattern.ReplaceAllString(text, u.replacement)
	}
	return text
}

// SameText reports whether two strings are equal except for generated values. It pairs UUIDs. Times may differ,
// but must be at the same positions in both strings.
func (m *Memory) SameText(want, got string) bool {
	if want == got && (!mayBeVolatile(want) || !volatile.MatchString(want)) {
		return true
	}
	wantParts, gotParts := volatile.FindAllString(want, -1), volatile.FindAllString(got, -1)
	if len(wantParts) != len(gotParts) {
		return false
	}
	frame := func(s string) string { return withoutUnpromised(m.renamed(withoutVolatile(s, "\x00"))) }
	if !matchesPlaceholders(frame(want), withoutUnpromised(withoutVolatile(got, "\x00"))) {
		return false
	}
	for i := range wantParts {
		if !m.samePart(wantParts[i], gotParts[i]) {
			return false
		}
	}
	return true
}

// placeholder matches the text that replaces addresses and names of the recorded server in recordings. In
// protobuf, this is an address from the documentation range, because it preserves the length.
var placeholder = regexp.MustCompile(`\\{(?:server|hostaddress|hostname|port|path|etcd)\\}|192\\.0\\.2\\.2:26543`)

// matchesPlaceholders compares two texts. A placeholder in the recorded text matches any text without white
// space.
func matchesPlaceholders(want, got string) bool {
	if want == got {
		return true
	}
	pattern := placeholder.ReplaceAllString(regexp.QuoteMeta(want), `\S*`)
	matched, err := regexp.MatchString("^"+pattern+"$", got)
	return err == nil && matched
}

func (m *Memory) samePart(want, got string) bool {
	switch {
	case m.Chosen(want):
		return want == got
	case token.MatchString(want):
		return token.MatchString(got) && m.sameToken(want, got)
	case uuid.MatchString(want):
		return uuid.MatchString(got) && m.Pair(want, got)
	case clusterIP.MatchString(want):
		return clusterIP.MatchString(got) && m.Pair(want, got)
	case hash.MatchString(want), tokenVolume.MatchString(want):
		m.Learn(want, got)
		return hash.MatchString(want) == hash.MatchString(got) && tokenVolume.MatchString(want) == tokenVolume.MatchString(got)
	case !timestamp.MatchString(got) || strings.Contains(want, ".") != strings.Contains(got, "."):
		return false
	default:
		m.Learn(want, got)
		return true
	}
}

// renamed replaces the generated names in recorded text with the live names.
func (m *Memory) renamed(text string) string {
	for recorded, live := range m.names {
		text = strings.ReplaceAll(text, recorded, live)
	}
	return text
}
