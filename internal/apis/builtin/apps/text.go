package apps

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const readyDoc = "Number of the pod with ready state"

// selectorText formats a selector in the syntax of label selectors. A selector that matches all
// objects is empty.
func selectorText(selector *metav1.LabelSelector) (string, error) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", err
	}
	return parsed.String(), nil
}

// number returns a number of replicas, or 0 if it is nil.
func number(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
