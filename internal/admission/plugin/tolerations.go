package plugin

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// maxTolerations is the maximum number of tolerations of a pod that are compared with each other, because the time
// is quadratic. kube-apiserver has no limit.
const maxTolerations = 1000

// checkCount returns an error if there are too many tolerations to compare them.
func checkCount(tolerations []corev1.Toleration) error {
	if n := len(tolerations); n > maxTolerations {
		return fmt.Errorf("the pod has %d tolerations, and at most %d can be compared", n, maxTolerations)
	}
	return nil
}

// mergeTolerations concatenates two lists, and omits tolerations that are covered by another one. It returns an
// error if there are more than maxTolerations.
func mergeTolerations(first, second []corev1.Toleration) ([]corev1.Toleration, error) {
	all := slices.Concat(first, second)
	if err := checkCount(all); err != nil {
		return nil, err
	}
	merged := make([]corev1.Toleration, 0, len(all))
	for i := range all {
		if !coveredBy(merged, &all[i], false) && !coveredBy(all[i+1:], &all[i], true) {
			merged = append(merged, all[i])
		}
	}
	return merged, nil
}

// coveredBy reports whether a toleration in the list covers t. If another is true, tolerations that are equal
// to t are ignored.
func coveredBy(list []corev1.Toleration, t *corev1.Toleration, another bool) bool {
	for i := range list {
		if equalTolerations(&list[i], t) {
			if !another {
				return true
			}
			continue
		}
		if covers(&list[i], t) {
			return true
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
	if wide.Effect != corev1.TaintEffectNoExecute || wide.TolerationSeconds == nil {
		return true
	}
	return t.TolerationSeconds != nil && *t.TolerationSeconds <= *wide.TolerationSeconds
}

func equalTolerations(a, b *corev1.Toleration) bool {
	as, bs := a.TolerationSeconds, b.TolerationSeconds
	sameTime := (as == nil) == (bs == nil) && (as == nil || *as == *bs)
	return sameTime && a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect
}
