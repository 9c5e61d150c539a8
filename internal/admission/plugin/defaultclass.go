package plugin

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/rest"
)

// newestDefault returns the default class. If several classes are marked as default, it returns the newest one.
// If their creation times are equal, it returns the first one by name. ok is false if there is no default
// class.
func newestDefault[T metav1.Object](ctx context.Context, classes Lister[T], isDefault func(annotations map[string]string) bool) (newest T, ok bool, err error) {
	for class, err := range classes.List(ctx, "", rest.ListOptions{}) {
		if err != nil {
			return newest, false, err
		}
		if isDefault(class.GetAnnotations()) && (!ok || precedes(class, newest)) {
			newest, ok = class, true
		}
	}
	return newest, ok, nil
}

// precedes reports whether a is newer than b. If their creation times are equal, it reports whether the name of
// a sorts before the name of b.
func precedes(a, b metav1.Object) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if at.Equal(&bt) {
		return a.GetName() < b.GetName()
	}
	return bt.Before(&at)
}
