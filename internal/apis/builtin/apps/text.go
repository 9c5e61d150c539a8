package apps

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const readyDoc = "Number of the pod with ready state"

// selectorText formats a selector in the syntax of label selectors. The text is empty for a selector that
// matches all objects.
func selectorText(selector *metav1.LabelSelector) (string, error) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", err
	}
	return parsed.String(), nil
}

// number returns *n, or 0 if n is nil.
func number(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
