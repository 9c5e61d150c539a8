package endpoints

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/request"
)

// WriteError writes an error as a Status, in the media type that the client accepts. StatusOf determines the
// Status. Unless the client has disconnected, a 500 is logged.
func (a *API) WriteError(w http.ResponseWriter, r *http.Request, err error) {
	status := StatusOf(err)
	if status.Code == http.StatusInternalServerError && r.Context().Err() == nil {
		a.config.Logger.ErrorContext(r.Context(), "request failed", slog.String("auditID", request.AuditID(r.Context())),
			slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	WriteStatus(w, r, status)
}

// WriteStatus writes a Status with its code, in the media type that the client accepts, and the
// Retry-After header of its details. It sets the kind and API version of status.
func WriteStatus(w http.ResponseWriter, r *http.Request, status *metav1.Status) {
	if details := status.Details; details != nil && details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(details.RetryAfterSeconds)))
	}
	t, err := negotiate(r, forError)
	if err != nil {
		t = target{pretty: requestsPretty(r)}
	}
	status.Kind, status.APIVersion = "Status", "v1"
	if err := respondObject(w, r, t, int(status.Code), status); err != nil {
		http.Error(w, status.Message, int(status.Code))
	}
}

// StatusOf converts an error to the Status of its response: an API error to its own Status, a
// deadline to a timeout, and other errors to a 500 with their message. Long messages are truncated.
// The caller owns the result.
func StatusOf(err error) *metav1.Status {
	var api apierrors.APIStatus
	if errors.As(err, &api) {
		status := api.Status()
		status.Status = metav1.StatusFailure
		if status.Code == 0 {
			status.Code = http.StatusInternalServerError
		}
		addRejection(&status, err)
		truncateMessages(&status)
		return &status
	}
	if errors.Is(err, context.DeadlineExceeded) {
		status := apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0).Status()
		return &status
	}
	status := &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	addRejection(status, err)
	return status
}

// addRejection adds the admission plugin that rejected the request to a Status.
func addRejection(status *metav1.Status, err error) {
	var rejection *admission.RejectionError
	if errors.As(err, &rejection) {
		rejection.AddTo(status)
	}
}

// maxMessage is the maximum size of a message of a Status, in bytes.
const maxMessage = 64 << 10

// truncateMessages truncates the messages of a status. Some messages quote client input repeatedly, and
// escape it each time.
func truncateMessages(status *metav1.Status) {
	status.Message = truncate(status.Message)
	if status.Details == nil {
		return
	}
	for i := range status.Details.Causes {
		if len(status.Details.Causes[i].Message) > maxMessage {
			details := status.Details.DeepCopy() // do not modify the details of the error
			for k := range details.Causes {
				details.Causes[k].Message = truncate(details.Causes[k].Message)
			}
			status.Details = details
			return
		}
	}
}

func truncate(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + " ..."
}

// statusError creates an API error for which apierrors has no function.
func statusError(code int, reason metav1.StatusReason, format string, args ...any) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: fmt.Sprintf(format, args...),
	}}
}

// notFoundResource returns the error for an unknown resource.
func notFoundResource() error {
	return detailed(statusError(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource"))
}

// methodNotAllowed returns the error for an unsupported verb.
func methodNotAllowed() error {
	return detailed(statusError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource"))
}

// detailed adds empty details, which some errors of kube-apiserver have.
func detailed(err *apierrors.StatusError) error {
	err.ErrStatus.Details = &metav1.StatusDetails{}
	return err
}

// NotFoundStatus returns the 404 Status of kube-apiserver for an unknown resource. The caller owns
// the result.
func NotFoundStatus() *metav1.Status { return StatusOf(notFoundResource()) }
