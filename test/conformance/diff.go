package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Comparison compares recorded JSON values with live ones and records up to maxDifferences differences. The
// values must be decoded by encoding/json with json.Number for numbers.
type Comparison struct {
	Memory      *Memory
	Differences []string
	// Partial ignores the fields that recordings of errors omit: uid, resourceVersion, creationTimestamp and
	// managedFields.
	Partial bool
	// Newer lists fields that did not exist in the recorded version. Live responses may contain them.
	Newer []string
	// GenerateName is the generateName of the object in the request.
	GenerateName string
}

const maxDifferences = 12

func (c *Comparison) note(path, format string, args ...any) {
	if len(c.Differences) < maxDifferences {
		c.Differences = append(c.Differences, path+": "+fmt.Sprintf(format, args...))
	}
}

// Values compares two values. path is the location of the values in the body, such as `.metadata`.
func (c *Comparison) Values(path string, want, got any) {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			c.note(path, "want an object, got %s", short(got))
			return
		}
		c.objects(path, want, got)
	case []any:
		got, ok := got.([]any)
		if !ok {
			c.note(path, "want a list, got %s", short(got))
			return
		}
		c.lists(path, want, got)
	case string:
		c.strings(path, want, got)
	case json.Number:
		c.numbers(path, want, got)
	default:
		if want != got {
			c.note(path, "want %s, got %s", short(want), short(got))
		}
	}
}

func (c *Comparison) objects(path string, want, got map[string]any) {
	if want["kind"] == "Table" && got["kind"] == "Table" {
		want, got = withoutAges(want), withoutAges(got)
	}
	c.generatedName(want, got)
	if path == "" {
		c.rejectedName(want, got)
	}
	unmatched := maps.Clone(got)
	for _, key := range slices.Sorted(maps.Keys(want)) {
		liveKey := c.liveKey(key)
		below := path + "." + key
		gotValue, present := got[liveKey]
		delete(unmatched, liveKey)
		switch {
		case c.Partial && isOmitted(key):
		case !present:
			c.note(below, "want %s, missing", short(want[key]))
		case key == "resourceVersion":
			c.revision(below, isList(want), want[key], gotValue)
		case key == "managedFields":
			c.Values(below, byManager(want[key]), byManager(gotValue))
		default:
			c.Values(below, want[key], gotValue)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(unmatched)) {
		if !slices.Contains(c.Newer, key) && !(c.Partial && isOmitted(key)) {
			c.note(path+"."+key, "not wanted, got %s", short(got[key]))
		}
	}
}

// byManager sorts the entries of managed fields by manager. kube-apiserver sorts them by time in whole seconds,
// so their order can vary.
func byManager(entries any) any {
	list, ok := entries.([]any)
	if !ok {
		return entries
	}
	name := func(entry any) string {
		e, _ := entry.(map[string]any)
		return fmt.Sprint(e["operation"], "\x00", e["manager"], "\x00", e["subresource"], "\x00", e["apiVersion"])
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(name(a), name(b)) })
	return list
}

// isOmitted reports whether recordings of errors omit a field.
func isOmitted(key string) bool {
	return key == "uid" || key == "resourceVersion" || key == "creationTimestamp" || key == "managedFields"
}

// liveKey replaces a recorded uid in a key with the live one. Managed fields contain such keys for owner
// references.
func (c *Comparison) liveKey(key string) string {
	return replaceVolatile(key, c.Memory.Value)
}

// generatedName pairs the generated names of two objects before other fields are compared, because many fields
// contain the name.
func (c *Comparison) generatedName(want, got map[string]any) {
	prefix, _ := want["generateName"].(string)
	recorded, _ := want["name"].(string)
	live, _ := got["name"].(string)
	if prefix == "" || c.Memory.Chosen(`"`+recorded+`"`) {
		return
	}
	if generated(prefix, recorded) && generated(prefix, live) {
		c.Memory.PairName(recorded, live)
	}
}

// rejectedName pairs the generated names in two Statuses for a rejected object.
func (c *Comparison) rejectedName(want, got map[string]any) {
	recorded, _ := want["details"].(map[string]any)
	live, _ := got["details"].(map[string]any)
	if want["kind"] != "Status" || recorded == nil || live == nil || c.GenerateName == "" {
		return
	}
	recordedName, _ := recorded["name"].(string)
	liveName, _ := live["name"].(string)
	if generated(c.GenerateName, recordedName) && generated(c.GenerateName, liveName) {
		c.Memory.PairName(recordedName, liveName)
	}
}

// generated reports whether name consists of the prefix, possibly truncated, and a suffix of five
// characters.
func generated(prefix, name string) bool {
	cut := len(name) - 5
	return cut > 0 && strings.HasPrefix(prefix, name[:cut])
}

// isList reports whether metadata belongs to a list, which, unlike an object, has neither a name nor a uid.
func isList(metadata map[string]any) bool {
	_, named := metadata["name"]
	_, identified := metadata["uid"]
	return !named && !identified
}

func (c *Comparison) revision(path string, ofList bool, want, got any) {
	w, wok := want.(string)
	g, gok := got.(string)
	switch {
	case !wok: // a schema with a property resourceVersion
		c.Values(path, want, got)
	case !gok || !decimal.MatchString(g):
		c.note(path, "want a resourceVersion, got %s", short(got))
	case ofList:
		c.Memory.LearnListRevision(w, g)
	case !c.Memory.PairRevision(w, g):
		c.note(path, "recorded %s stands for %s so far, got %s: another write, or one too few", w, c.Memory.Revision(w), g)
	}
}

var decimal = regexp.MustCompile(`^(0|[1-9][0-9]*)?$`)

func (c *Comparison) lists(path string, want, got []any) {
	if len(want) != len(got) {
		c.note(path, "want %d elements, got %d: want %s, got %s", len(want), len(got), short(want), short(got))
	}
	for i := range min(len(want), len(got)) {
		c.Values(fmt.Sprintf("%s[%d]", path, i), want[i], got[i])
	}
}

func (c *Comparison) strings(path string, want string, gotAny any) {
	got, ok := gotAny.(string)
	if !ok {
		c.note(path, "want %s, got %s", short(want), short(gotAny))
		return
	}
	same := false
	switch {
	case strings.HasSuffix(path, ".continue"):
		same = (want == "") == (got == "")
		c.Memory.Learn(want, got)
	default:
		same = c.Memory.SameText(want, got) || assignedIP.MatchString(path) && c.sameAssignedIP(want, got)
	}
	if !same {
		c.note(path, "want %s, got %s", short(want), short(got))
	}
}

// assignedIP matches the paths of fields that contain addresses allocated by the server.
var assignedIP = regexp.MustCompile(`\.clusterIPs?(\[\d+\])?$`)

// sameAssignedIP pairs two addresses if the servers have allocated them, and reports whether it has paired
// them.
func (c *Comparison) sameAssignedIP(want, got string) bool {
	_, err := netip.ParseAddr(got)
	if want == "" || want == "None" || err != nil || c.Memory.Chosen(want) {
		return false
	}
	c.Memory.Learn(want, got)
	return true
}

var nodePort = regexp.MustCompile(`(\.nodePort|\.healthCheckNodePort)$`)

func (c *Comparison) numbers(path string, want json.Number, gotAny any) {
	got, ok := gotAny.(json.Number)
	switch {
	case !ok:
		c.note(path, "want %s, got %s", want, short(gotAny))
	case want == got:
	case nodePort.MatchString(path) && want != "0" && got != "0" && !c.Memory.Chosen(want.String()):
		c.Memory.Learn(want.String(), got.String())
	default:
		c.note(path, "want %s, got %s", want, got)
	}
}

// short formats a value on one line, truncated to 300 bytes.
func short(v any) string {
	if v == nil {
		return "null"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if s := string(text); len(s) <= 300 {
		return s
	}
	return string(text[:300]) + "…"
}
