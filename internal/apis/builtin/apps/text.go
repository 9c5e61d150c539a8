package apps

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const readyDoc = "Number of the pod with ready state"

// selectorText shows a selector as its own syntax has it; one that chooses
// everything is empty.
func selectorText(selector *metav1.LabelSelector) (string, error) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", err
	}
	return parsed.String(), nil
}

// number is a number of replicas that may be left out.
func number(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
