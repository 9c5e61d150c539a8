package admission

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CausePlugin is the type of the cause that says which plugin has refused a request;
// its message is the plugin's name. kube-apiserver has no such cause.
const CausePlugin metav1.CauseType = "AdmissionPlugin"

// CausePolicy is the type of the cause that says which expression of a policy has refused
// a request: its field is that of the expression, and its message names the policy, the
// binding and the parameter, and repeats the expression. kube-apiserver has no such cause.
const CausePolicy metav1.CauseType = "AdmissionPolicy"

// CauseWebhook is the type of the cause that says which webhook has denied a request; its
// message names the webhook and its configuration. kube-apiserver has no such cause.
const CauseWebhook metav1.CauseType = "AdmissionWebhook"

// Refusal is an error of a plugin, by which it refuses a request.
type Refusal struct {
	Plugin string
	Err    error
}

// Error returns the plugin's own words.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the plugin's error.
func (r *Refusal) Unwrap() error { return r.Err }

// AddTo adds the plugin to the causes of the Status that its error has become. One of
// invalid fields stays as it is: its causes are fields, and clients print them all.
func (r *Refusal) AddTo(status *metav1.Status) {
	if status.Reason == metav1.StatusReasonInvalid {
		return
	}
	details := &metav1.StatusDetails{}
	if status.Details != nil {
		details = status.Details.DeepCopy() // the error's own
	}
	details.Causes = append(details.Causes, metav1.StatusCause{Type: CausePlugin, Message: r.Plugin})
	status.Details = details
}
