package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"mainstay.dev/mainstay/internal/request"
)

// maxChanges is the maximum number of changes that are recorded for one call of a plugin.
const maxChanges = 100

// Explanation contains the effects of each plugin on a request. After retries, it describes the
// last attempt. Except for decisions, it is not safe for concurrent use.
type Explanation struct {
	Steps []Step

	// mutates reports whether the current call may modify the object.
	mutates   bool
	mu        sync.Mutex // guards the following fields
	decisions []Decision // of the current call
}

// Public returns the steps with only the information that the client can see without an explanation: the called
// plugins, their warnings, and the reason for a denial. The caller owns the slice.
func (e *Explanation) Public() []Step {
	public := make([]Step, len(e.Steps))
	for i, s := range e.Steps {
		public[i] = Step{Plugin: s.Plugin, Phase: s.Phase, Again: s.Again, Warnings: s.Warnings, Rejection: s.Rejection}
	}
	return public
}

func (e *Explanation) addDecision(d Decision) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.decisions = append(e.decisions, d)
}

// Step is one call of a plugin. It is part of the response to a request for an explanation.
type Step struct {
	Plugin string `json:"plugin"`
	// Phase is Mutate or Validate. Again reports whether this is the second mutating pass.
	Phase string `json:"phase"`
	Again bool   `json:"again,omitempty"`
	// Took is the duration of the call, excluding the time to record its changes.
	Took time.Duration `json:"tookNanoseconds"`
	// Changes are the changed fields, at most 100.
	Changes  []Change `json:"changes,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// AuditAnnotations are the audit annotations that the plugin added.
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
	// Decisions are the decisions of policies or webhooks, in order of completion.
	Decisions []Decision `json:"decisions,omitempty"`
	// Rejection is the reason for the rejection; empty if the plugin admitted the request.
	Rejection string `json:"rejection,omitempty"`
}

// Change is a change to a field. Before is nil if the plugin added the field; After is nil if the plugin
// removed it.
type Change struct {
	Path   string `json:"path"`
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"`
}

// The phases of a Step.
const (
	mutating   = "Mutate"
	validating = "Validate"
)

// observation is a recorded call of a plugin. The methods of a nil *observation have no effect.
type observation struct {
	step        Step
	start       time.Time
	before      any
	warnings    int
	annotations map[string]string
}

// observe starts recording a call. It returns nil if no explanation was requested.
func (a *Attributes) observe(ctx context.Context, plugin Plugin, phase string) *observation {
	if a.Explanation == nil {
		return nil
	}
	o := &observation{step: Step{Plugin: plugin.Name(), Phase: phase, Again: a.reinvoked && phase == mutating}}
	o.warnings, o.annotations = len(request.WarningsFrom(ctx)), request.AnnotationsFrom(ctx)
	if a.Explanation.mutates = phase == mutating; a.Explanation.mutates {
		o.before = documentOf(a.Object)
	}
	o.start = time.Now()
	return o
}

// end records the effects of the plugin.
func (o *observation) end(ctx context.Context, a *Attributes, err error) {
	if o == nil {
		return
	}
	o.step.Took = time.Since(o.start)
	if err != nil {
		o.step.Rejection = err.Error()
	}
	if o.step.Phase == mutating {
		o.step.Changes = changesOf(o.before, documentOf(a.Object))
	}
	o.step.Decisions, a.Explanation.decisions = a.Explanation.decisions, nil
	o.step.Warnings = request.WarningsFrom(ctx)[o.warnings:]
	added := request.AnnotationsFrom(ctx)
	maps.DeleteFunc(added, func(key, _ string) bool { _, there := o.annotations[key]; return there })
	o.step.AuditAnnotations = added
	a.Explanation.Steps = append(a.Explanation.Steps, o.step)
}

// documentOf returns the decoded JSON encoding of an object, or nil if the object cannot be encoded.
func documentOf(obj runtime.Object) (document any) {
	text, err := json.Marshal(obj)
	if err != nil || json.Unmarshal(text, &document) != nil {
		return nil
	}
	return document
}

// changesOf returns the differences between two documents, but at most maxChanges.
func changesOf(before, after any) []Change {
	d := differ{}
	d.compare("", before, after)
	return d.changes
}

// differ collects the differences between two documents.
type differ struct{ changes []Change }

func (d *differ) compare(path string, before, after any) {
	if len(d.changes) == maxChanges {
		return
	}
	switch was := before.(type) {
	case map[string]any:
		if is, ok := after.(map[string]any); ok {
			d.compareMaps(path, was, is)
			return
		}
	case []any:
		if is, ok := after.([]any); ok {
			d.compareLists(path, was, is)
			return
		}
	default:
		if _, composite := after.(map[string]any); !composite {
			if _, list := after.([]any); !list && before == after {
				return
			}
		}
	}
	d.changes = append(d.changes, Change{path, before, after})
}

func (d *differ) compareMaps(path string, before, after map[string]any) {
	keys := slices.Collect(maps.Keys(before))
	for key := range after {
		if _, ok := before[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		d.compare(path+childPath(path, key), before[key], after[key])
	}
}

// childPath returns the text that the key appends to path. It quotes keys that contain dots, slashes or
// brackets.
func childPath(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./[]"):
		return fmt.Sprintf("[%q]", key)
	case path == "":
		return key
	}
	return "." + key
}

func (d *differ) compareLists(path string, before, after []any) {
	for i := range max(len(before), len(after)) {
		var was, is any
		if i < len(before) {
			was = before[i]
		}
		if i < len(after) {
			is = after[i]
		}
		d.compare(fmt.Sprintf("%s[%d]", path, i), was, is)
	}
}
