package admission

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CausePlugin is the type of a status cause that identifies the admission plugin that rejected the request.
// The message of the cause is the plugin's name. kube-apiserver has no such cause.
const CausePlugin metav1.CauseType = "AdmissionPlugin"

// CausePolicy is the type of a status cause that identifies the policy expression that rejected the request.
// The field of the cause is the path of the expression in the policy; the message contains the policy, binding,
// parameter and expression. kube-apiserver has no such cause.
const CausePolicy metav1.CauseType = "AdmissionPolicy"

// CauseWebhook is the type of a status cause that identifies the webhook that denied the request. The message
// of the cause contains the names of the webhook and of its configuration. kube-apiserver has no such cause.
const CauseWebhook metav1.CauseType = "AdmissionWebhook"

// RejectionError is the error of a request that the plugin named Plugin rejected. Err is the plugin's error,
// usually an API error.
type RejectionError struct {
	Plugin string
	Err    error
}

// Error returns the plugin's error message, without the name of the plugin.
func (r *RejectionError) Error() string { return r.Err.Error() }

// Unwrap returns the plugin's error.
func (r *RejectionError) Unwrap() error { return r.Err }

// AddTo adds the name of the plugin to the causes of a Status. It does not change a Status with reason Invalid,
// because clients print all causes of such a Status as fields. AddTo replaces status.Details and does not
// modify the old value.
func (r *RejectionError) AddTo(status *metav1.Status) {
	if status.Reason == metav1.StatusReasonInvalid {
		return
	}
	details := &metav1.StatusDetails{}
	if status.Details != nil {
		details = status.Details.DeepCopy() // the error may be shared
	}
	details.Causes = append(details.Causes, metav1.StatusCause{Type: CausePlugin, Message: r.Plugin})
	status.Details = details
}
