package plugin

import (
	"math"

	corev1 "k8s.io/api/core/v1"
)

// mergeTolerations concatenates two lists, and omits tolerations that are covered by another one.
func mergeTolerations(first, second []corev1.Toleration) []corev1.Toleration {
	all := make([]corev1.Toleration, 0, len(first)+len(second))
	all = append(append(all, first...), second...)
	later, covered := newTolerationSet(nil), make([]bool, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		covered[i] = later.coversOther(&all[i])
		later.add(&all[i])
	}
	kept, merged := newTolerationSet(nil), make([]corev1.Toleration, 0, len(all))
	for i := range all {
		if !covered[i] && !kept.covers(&all[i]) {
			kept.add(&all[i])
			merged = append(merged, all[i])
		}
	}
	return merged
}

// tolerationSet is a set of tolerations. A lookup does not depend on the number of tolerations.
type tolerationSet struct {
	exact map[exactToleration]bool
	// longest contains the two longest tolerations of each class. The second one decides if the first one is
	// equal to the toleration that is looked up.
	longest map[tolerationClass][2]*corev1.Toleration
}

// exactToleration is a comparable form of a toleration.
type exactToleration struct {
	corev1.Toleration // without TolerationSeconds
	limited           bool
	seconds           int64
}

func exactly(t *corev1.Toleration) exactToleration {
	e := exactToleration{Toleration: *t}
	if s := t.TolerationSeconds; s != nil {
		e.TolerationSeconds, e.limited, e.seconds = nil, true, *s
	}
	return e
}

// tolerationClass contains the fields that, together with the duration, determine what a toleration covers.
type tolerationClass struct {
	key, value string // value is empty for the operator Exists
	operator   corev1.TolerationOperator
	effect     corev1.TaintEffect
}

// newTolerationSet returns a set that refers to the tolerations of a list.
func newTolerationSet(list []corev1.Toleration) *tolerationSet {
	s := &tolerationSet{exact: map[exactToleration]bool{}, longest: map[tolerationClass][2]*corev1.Toleration{}}
	for i := range list {
		s.add(&list[i])
	}
	return s
}

func (s *tolerationSet) add(t *corev1.Toleration) {
	e := exactly(t)
	if s.exact[e] {
		return
	}
	s.exact[e] = true
	class := tolerationClass{t.Key, t.Value, t.Operator, t.Effect}
	if t.Operator == corev1.TolerationOpExists {
		class.value = ""
	}
	longest := s.longest[class]
	switch {
	case longest[0] == nil || duration(t) > duration(longest[0]):
		longest[0], longest[1] = t, longest[0]
	case longest[1] == nil || duration(t) > duration(longest[1]):
		longest[1] = t
	}
	s.longest[class] = longest
}

// covers reports whether the set contains t or a toleration that covers t.
func (s *tolerationSet) covers(t *corev1.Toleration) bool {
	return s.exact[exactly(t)] || s.coversOther(t)
}

// coversOther reports whether the set contains a toleration that covers t and is not equal to t.
func (s *tolerationSet) coversOther(t *corev1.Toleration) bool {
	for _, key := range [...]string{t.Key, ""} {
		for _, effect := range [...]corev1.TaintEffect{t.Effect, ""} {
			for _, class := range [...]tolerationClass{{key, "", corev1.TolerationOpExists, effect}, {key, t.Value, corev1.TolerationOpEqual, effect}, {key, t.Value, "", effect}} {
				for _, wide := range s.longest[class] {
					if wide != nil && covers(wide, t) && exactly(wide) != exactly(t) {
						return true
					}
				}
			}
		}
	}
	return false
}

// covers reports whether the toleration wide covers a different toleration t. As in kube-apiserver, a
// toleration without an operator covers only tolerations with the explicit operator Equal.
func covers(wide, t *corev1.Toleration) bool {
	everyKey := wide.Key == "" && wide.Operator == corev1.TolerationOpExists
	if t.Key != wide.Key && !everyKey || t.Effect != wide.Effect && wide.Effect != "" || !lastsAsLong(wide, t) {
		return false
	}
	switch wide.Operator {
	case corev1.TolerationOpEqual, "":
		return t.Operator == corev1.TolerationOpEqual && t.Value == wide.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}

func lastsAsLong(wide, t *corev1.Toleration) bool {
	if !isLimited(wide) {
		return true
	}
	return t.TolerationSeconds != nil && *t.TolerationSeconds <= *wide.TolerationSeconds
}

// isLimited reports whether a toleration ends after TolerationSeconds. Other effects ignore this field.
func isLimited(t *corev1.Toleration) bool {
	return t.Effect == corev1.TaintEffectNoExecute && t.TolerationSeconds != nil
}

// duration returns the duration of a toleration, in seconds.
func duration(t *corev1.Toleration) int64 {
	if !isLimited(t) {
		return math.MaxInt64
	}
	return *t.TolerationSeconds
}
