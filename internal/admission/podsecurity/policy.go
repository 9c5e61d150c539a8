package podsecurity

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Level is a level of the Pod Security Standards. A greater value is more restrictive.
type Level int

// The levels.
const (
	Privileged Level = iota
	Baseline
	Restricted
)

// String returns the name of a level.
func (l Level) String() string {
	switch l {
	case Baseline:
		return "baseline"
	case Restricted:
		return "restricted"
	}
	return "privileged"
}

// ParseLevel parses the name of a level. For an unknown name, it returns Restricted and an error.
func ParseLevel(name string) (Level, error) {
	for _, level := range [...]Level{Privileged, Baseline, Restricted} {
		if level.String() == name {
			return level, nil
		}
	}
	return Restricted, fmt.Errorf("must be one of %s, %s, %s", Privileged, Baseline, Restricted)
}

// Version is a version of the standards; the zero value is the latest version.
type Version struct {
	pinned bool
	minor  int
}

// Pinned returns the version v1.minor.
func Pinned(minor int) Version { return Version{pinned: true, minor: minor} }

// NewerThan reports whether v is pinned to a version later than v1.minor.
func (v Version) NewerThan(minor int) bool { return v.pinned && v.minor > minor }

// String returns "latest" or "v1.x".
func (v Version) String() string {
	if !v.pinned {
		return "latest"
	}
	return "v1." + strconv.Itoa(v.minor)
}

// ParseVersion parses "latest" or "v1.x". For other values, it returns the latest version and an error.
func ParseVersion(text string) (Version, error) {
	if text == "latest" {
		return Version{}, nil
	}
	digits, ok := strings.CutPrefix(text, "v1.")
	minor, err := strconv.Atoi(digits)
	if !ok || err != nil || strconv.Itoa(minor) != digits || minor < 0 {
		return Version{}, fmt.Errorf(`must be "latest" or "v1.x"`)
	}
	return Pinned(minor), nil
}

// LevelVersion is a level in a certain version of the standards. The zero value allows all pods.
type LevelVersion struct {
	Level   Level
	Version Version
}

// String returns "level:version".
func (l LevelVersion) String() string { return l.Level.String() + ":" + l.Version.String() }

// Policy specifies the levels to enforce, to record in the audit event, and to warn about. The zero
// value has no effect.
type Policy struct {
	Enforce, Audit, Warn LevelVersion
}

// LabelPrefix is the prefix of the namespace labels that define a policy, and of the audit annotations.
const LabelPrefix = "pod-security.kubernetes.io/"

// The labels of a policy.
const (
	enforceLabel        = LabelPrefix + "enforce"
	enforceVersionLabel = LabelPrefix + "enforce-version"
	auditLabel          = LabelPrefix + "audit"
	auditVersionLabel   = LabelPrefix + "audit-version"
	warnLabel           = LabelPrefix + "warn"
	warnVersionLabel    = LabelPrefix + "warn-version"
)

// With returns the policy that the labels of a namespace define; p contains the defaults. The policy is valid
// even if there are errors: an invalid level selects restricted for the mode enforce and privileged for the
// other modes, and an invalid version selects the latest version.
func (p Policy) With(labels map[string]string) (Policy, field.ErrorList) {
	if len(labels) == 0 {
		return p, nil
	}
	l := labelReader{labels: labels}
	enforces := l.level(enforceLabel, &p.Enforce.Level) == valid
	l.version(enforceVersionLabel, &p.Enforce.Version)
	if l.level(auditLabel, &p.Audit.Level) == invalid {
		p.Audit.Level = Privileged
	}
	l.version(auditVersionLabel, &p.Audit.Version)
	warns := l.level(warnLabel, &p.Warn.Level)
	if warns == invalid {
		p.Warn.Level = Privileged
	}
	warnsOf := l.version(warnVersionLabel, &p.Warn.Version)
	// The enforced level is also used for warnings, because objects with pod templates are not rejected.
	if warns == absent && enforces && p.Enforce.Level > p.Warn.Level {
		p.Warn.Level = p.Enforce.Level
		if warnsOf == absent {
			p.Warn.Version = p.Enforce.Version
		}
	}
	return p, l.errs
}

// labelReader parses labels and collects their errors.
type labelReader struct {
	labels map[string]string
	errs   field.ErrorList
}

// labelState is the result of parsing a label.
type labelState int

const (
	absent labelState = iota
	valid
	invalid
)

// level sets *level if the label is present. If its value is invalid, *level is set to Restricted.
func (l *labelReader) level(label string, level *Level) labelState {
	text, ok := l.labels[label]
	if !ok {
		return absent
	}
	var err error
	*level, err = ParseLevel(text)
	return l.state(label, text, err)
}

// version sets *version if the label is present. If its value is invalid, *version is set to the latest
// version.
func (l *labelReader) version(label string, version *Version) labelState {
	text, ok := l.labels[label]
	if !ok {
		return absent
	}
	var err error
	*version, err = ParseVersion(text)
	return l.state(label, text, err)
}

func (l *labelReader) state(label, text string, err error) labelState {
	if err == nil {
		return valid
	}
	l.errs = append(l.errs, field.Invalid(field.NewPath("metadata", "labels").Key(label), text, err.Error()))
	return invalid
}
