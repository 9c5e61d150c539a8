package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission/webhooks"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
)

// AdmissionPath is the path of AdmissionState. It is an extension of Mainstay.
const AdmissionPath = "/debug/admission"

// AdmissionState is the state of a control plane's admission.
type AdmissionState struct {
	metav1.TypeMeta `json:",inline"`
	Plugins         []AdmissionPlugin `json:"plugins"`
	// Webhooks are in calling order.
	Webhooks []webhooks.State `json:"webhooks"`
}

func (i *instance) serveAdmission(w http.ResponseWriter, _ *http.Request) {
	state := AdmissionState{
		TypeMeta: metav1.TypeMeta{APIVersion: "mainstay.dev/v1", Kind: "AdmissionState"},
		Plugins:  i.options.ListAdmission(), Webhooks: slices.Concat(i.webhooks.mutating.States(), i.webhooks.validating.States()),
	}
	body, err := json.Marshal(state)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the client has disconnected
}

// reportTimeout bounds the writing of an event.
const reportTimeout = 10 * time.Second

// reportWebhook writes an event about a webhook that is spared, or is not any more. The
// request that found out does not wait for it.
func (i *instance) reportWebhook(s webhooks.State) {
	if i.lifetime.Err() != nil {
		return
	}
	i.running.Go(func() error {
		ctx, cancel := context.WithTimeout(i.lifetime, reportTimeout)
		defer cancel()
		if err := i.writeWebhookEvent(ctx, s); err != nil {
			i.env.Logger.Warn("an event about a webhook is lost", "webhook", s.Webhook, "configuration", s.Configuration, "err", err)
		}
		return nil
	})
}

func (i *instance) writeWebhookEvent(ctx context.Context, s webhooks.State) error {
	uid, err := i.uidOfConfiguration(ctx, s)
	if apierrors.IsNotFound(err) {
		return nil // it is from a file, or was deleted
	}
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	events := i.static.Find(corev1.SchemeGroupVersion, "events", "")
	// Past admission: the webhook that is spared could refuse it.
	_, err = events.Storage.(rest.Creater).Create(ctx, webhookEvent(s, uid, metav1.NewTime(i.env.World.Now())), nil, metav1.CreateOptions{})
	return err
}

func (i *instance) uidOfConfiguration(ctx context.Context, s webhooks.State) (types.UID, error) {
	if s.Kind == "MutatingWebhookConfiguration" {
		return uidOf[*admissionregistrationv1.MutatingWebhookConfiguration](ctx, i, mutatingWebhooks, s.Configuration)
	}
	return uidOf[*admissionregistrationv1.ValidatingWebhookConfiguration](ctx, i, validatingWebhooks, s.Configuration)
}

func uidOf[T codec.Object](ctx context.Context, i *instance, resource, name string) (types.UID, error) {
	obj, err := loopback.For[T](i.local, admissionregistrationv1.SchemeGroupVersion.WithResource(resource)).Get(ctx, types.NamespacedName{Name: name})
	if err != nil {
		return "", err
	}
	return obj.GetUID(), nil
}

// maxEventMessage is the maximum size of an event message, in bytes.
const maxEventMessage = 1024

// webhookEvent is the event about a configuration.
func webhookEvent(s webhooks.State, uid types.UID, now metav1.Time) *corev1.Event {
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "admission-webhook." + uuid.NewString()},
		InvolvedObject: corev1.ObjectReference{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: s.Kind, Name: s.Configuration, UID: uid},
		Source:         corev1.EventSource{Component: "mainstay"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Type: corev1.EventTypeNormal, Reason: "WebhookAnswers", Message: fmt.Sprintf("webhook %s answers again", s.Webhook),
	}
	if s.Spared {
		event.Type, event.Reason = corev1.EventTypeWarning, "WebhookSpared"
		message := fmt.Sprintf("webhook %s has failed %d times in a row and is called less often until it responds: %s", s.Webhook, s.Failures, s.LastFailure)
		event.Message = strings.ToValidUTF8(message[:min(len(message), maxEventMessage)], "")
	}
	return event
}
