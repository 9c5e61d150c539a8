package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// place is the path of a value in a document. It is a linked list on the stack of a walk, so that the path is formatted
// only for an error.
type place struct {
	above *place
	name  string
	index int // used if name is empty
}

// String returns the path in the form of kube-apiserver's messages.
func (p *place) String() string {
	if p == nil {
		return ""
	}
	var b strings.Builder
	p.write(&b)
	return b.String()
}

func (p *place) write(b *strings.Builder) {
	if p == nil {
		return
	}
	p.above.write(b)
	if p.name == "" && p.index >= 0 {
		b.WriteByte('[')
		b.WriteString(strconv.Itoa(p.index))
		b.WriteByte(']')
		return
	}
	if p.above != nil {
		b.WriteByte('.')
	}
	b.WriteString(p.name)
}

// fault is a validation error of a value. Faults with equal texts are duplicates.
type fault struct {
	text string
	err  *field.Error
}

// maxFaults is the maximum number of faults of one value, and maxFaultSize their approximate maximum total size, in bytes. A
// body of a few MB can have a million faults, and removing duplicates among them would take hours. Each fault contains a
// path, a value, or all values of an enum.
const maxFaults, maxFaultSize = 1 << 10, 4 << 20

// fewFaults is the maximum number of faults for which a linear search is faster than a map.
const fewFaults = 16

// size returns the approximate size of a fault, in bytes.
func (f *fault) size() int {
	size := len(f.text) + len(f.err.Field) + len(f.err.Detail)
	if text, ok := f.err.BadValue.(string); ok {
		size += len(text)
	}
	return size
}

// result is the result of validating a value. It contains distinct faults, up to maxFaults and maxFaultSize.
// matched is the number of checks that were made. If all alternatives fail, the faults of the alternative with
// the most checks are reported.
type result struct {
	faults []fault
	// texts contains the texts of the faults. It is nil until there are more than fewFaults faults.
	texts   map[string]bool
	size    int // of the faults
	matched int
	// changed is set if the value is known to differ from the old value.
	changed bool
}

// full reports whether further faults are dropped.
func (r *result) full() bool { return len(r.faults) >= maxFaults || r.size > maxFaultSize }

func (r *result) add(f fault) {
	if r.full() || r.has(f.text) {
		return
	}
	r.faults = append(r.faults, f)
	r.size += f.size()
	if r.texts != nil {
		r.texts[f.text] = true
	}
}

func (r *result) has(text string) bool {
	if len(r.faults) <= fewFaults {
		return slices.ContainsFunc(r.faults, func(f fault) bool { return f.text == text })
	}
	if r.texts == nil {
		r.texts = make(map[string]bool, 2*len(r.faults))
		for i := range r.faults {
			r.texts[r.faults[i].text] = true
		}
	}
	return r.texts[text]
}

// merge adds the faults of another result, which must not be used afterwards.
func (r *result) merge(other result) {
	if len(r.faults) == 0 {
		r.faults, r.texts, r.size = other.faults, other.texts, other.size
	} else {
		for _, f := range other.faults {
			r.add(f)
		}
	}
	r.matched += other.matched
}

// at returns the field path of a place.
func (c *checker) at(p *place) *field.Path {
	path := p.String()
	if path == "" {
		return c.base
	}
	return c.base.Child(path)
}

// invalid returns a fault with a message such as "spec.size in body ...".
func (c *checker) invalid(p *place, value any, format string, args ...any) fault {
	text := p.String() + " in body " + fmt.Sprintf(format, args...)
	return fault{text, field.Invalid(c.at(p), value, text)}
}

// combinationFault returns a fault without a field, like some errors of kube-apiserver.
func (c *checker) combinationFault(text string) fault {
	return fault{text, field.Invalid(c.base, "", text)}
}

func (c *checker) wrongType(p *place, want, got string) fault {
	text := fmt.Sprintf("%s in body must be of type %s: %q", p, want, got)
	return fault{text, field.TypeInvalid(c.at(p), got, text)}
}

func (c *checker) notSupported(p *place, value any, enum []any) fault {
	values := make([]string, 0, len(enum))
	for _, allowed := range enum {
		text, ok := allowed.(string)
		if !ok {
			encoded, err := json.Marshal(allowed)
			if err != nil {
				encoded = []byte(fmt.Sprint(allowed))
			}
			text = string(encoded)
		}
		values = append(values, text)
	}
	if value == nil {
		value = ""
	}
	return fault{fmt.Sprintf("%s should be one of %v", p, enum), field.NotSupported(c.at(p), value, values)}
}

func (c *checker) required(p *place) fault {
	return fault{p.String() + " is required", field.Required(c.at(p), "")}
}

func (c *checker) tooMany(p *place, actual, limit int64, what string) fault {
	text := fmt.Sprintf("%s in body should have at most %d %s", p, limit, what)
	return fault{text, field.TooMany(c.at(p), int(actual), int(limit))}
}
