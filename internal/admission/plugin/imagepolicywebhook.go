package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/config"
	"mainstay.dev/mainstay/internal/egress/webhook/review"
)

// imagePolicyAudit is the prefix of the audit annotations of ImagePolicyWebhook.
const imagePolicyAudit = "imagepolicywebhook.image-policy.k8s.io/"

// maxCachedReviews is the maximum number of cached responses. imageReviewTimeout is the timeout of a review,
// including retries.
const (
	maxCachedReviews   = 1024
	imageReviewTimeout = 30 * time.Second
)

// ImagePolicyWebhook sends the images of a pod to a webhook in an ImageReview. The webhook allows or denies the
// pod.
type ImagePolicyWebhook struct {
	onCreateOrUpdate
	config  config.ImagePolicyWebhook
	webhook *review.Webhook
	reviews *lru.Cache // of *cachedReview, by the SHA-256 of the request, which can have several megabytes
}

var _ admission.Validator = ImagePolicyWebhook{}

func imagePolicyWebhookPlugin() Registration {
	return Registration{
		Name: ImagePolicyWebhook{}.Name(), Description: "rejects pods with images that a webhook does not allow",
		RequiresConfig: true,
		New:            func(d Dependencies) admission.Plugin { return NewImagePolicyWebhook(d.Config.ImagePolicyWebhook) },
	}
}

// imageReview is an ImageReview of imagepolicy.k8s.io/v1alpha1.
type imageReview struct {
	metav1.TypeMeta `json:",inline"`
	Spec            imageReviewSpec   `json:"spec"`
	Status          imageReviewStatus `json:"status"`
}

// imageReviewSpec is the request to the webhook.
type imageReviewSpec struct {
	Containers  []imageReviewContainer `json:"containers,omitempty"`
	Annotations map[string]string      `json:"annotations,omitempty"`
	Namespace   string                 `json:"namespace,omitempty"`
}

type imageReviewContainer struct {
	Image string `json:"image,omitempty"`
}

// imageReviewStatus is the webhook's response.
type imageReviewStatus struct {
	Allowed          bool              `json:"allowed"`
	Reason           string            `json:"reason,omitempty"`
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
}

// cachedReview is a cached response.
type cachedReview struct {
	status imageReviewStatus
	until  time.Time
}

// NewImagePolicyWebhook returns a plugin with an empty cache. c.Client must not be nil.
func NewImagePolicyWebhook(c config.ImagePolicyWebhook) ImagePolicyWebhook {
	return ImagePolicyWebhook{
		config: c, reviews: lru.New(maxCachedReviews),
		webhook: &review.Webhook{Client: c.Client, URL: c.URL, Purpose: "images", Backoff: c.RetryBackoff, NoRetry: c.RetryBackoff == 0},
	}
}

// Name implements admission.Plugin.
func (ImagePolicyWebhook) Name() string { return "ImagePolicyWebhook" }

// Validate implements admission.Validator.
func (p ImagePolicyWebhook) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || !isFor(a, "", "pods", "") && !isFor(a, "", "pods", "ephemeralcontainers") {
		return nil
	}
	status, err := p.review(ctx, reviewOf(a, pod))
	switch {
	case err != nil && p.config.DefaultAllow:
		annotate(ctx, a, imagePolicyAudit+"failed-open", "true")
		return nil
	case err != nil:
		return reject(a, err)
	}
	for key, value := range status.AuditAnnotations {
		annotate(ctx, a, imagePolicyAudit+key, value)
	}
	switch {
	case status.Allowed:
		return nil
	case status.Reason != "":
		return reject(a, fmt.Errorf("image policy webhook backend denied one or more images: %s", status.Reason))
	}
	return reject(a, errors.New("one or more images rejected by webhook backend"))
}

// reviewOf returns the request to the webhook for a pod.
func reviewOf(a *admission.Attributes, pod *corev1.Pod) *imageReviewSpec {
	spec := &imageReviewSpec{Namespace: a.Namespace}
	add := func(image string) {
		spec.Containers = append(spec.Containers, imageReviewContainer{Image: image})
	}
	if a.Resource.Subresource == "" {
		for i := range pod.Spec.Containers {
			add(pod.Spec.Containers[i].Image)
		}
		for i := range pod.Spec.InitContainers {
			add(pod.Spec.InitContainers[i].Image)
		}
	} else {
		for i := range pod.Spec.EphemeralContainers {
			add(pod.Spec.EphemeralContainers[i].Image)
		}
	}
	for key, value := range pod.Annotations {
		if !strings.Contains(key, ".image-policy.k8s.io/") {
			continue
		}
		if spec.Annotations == nil {
			spec.Annotations = make(map[string]string)
		}
		spec.Annotations[key] = value
	}
	return spec
}

// review returns the webhook's response, which may be cached.
func (p ImagePolicyWebhook) review(ctx context.Context, spec *imageReviewSpec) (*imageReviewStatus, error) {
	asked, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(asked)
	if known, ok := p.reviews.Get(key); ok {
		if kept := known.(*cachedReview); time.Now().Before(kept.until) {
			return &kept.status, nil
		}
	}
	status, err := p.send(ctx, spec)
	if err != nil {
		return nil, err
	}
	ttl := p.config.DenyTTL
	if status.Allowed {
		ttl = p.config.AllowTTL
	}
	if ttl > 0 {
		p.reviews.Add(key, &cachedReview{*status, time.Now().Add(ttl)})
	}
	return status, nil
}

// send calls the webhook and retries after temporary errors. Error messages start like those of kube-apiserver.
func (p ImagePolicyWebhook) send(ctx context.Context, spec *imageReviewSpec) (*imageReviewStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, imageReviewTimeout)
	defer cancel()
	asked := imageReview{TypeMeta: metav1.TypeMeta{APIVersion: "imagepolicy.k8s.io/v1alpha1", Kind: "ImageReview"}, Spec: *spec}
	var answer imageReview
	err := p.webhook.Post(ctx, &asked, &answer)
	var refused *review.StatusError
	switch {
	case err == nil:
		return &answer.Status, nil
	case errors.As(err, &refused):
		return nil, fmt.Errorf("error contacting webhook: %d", refused.Code)
	}
	return nil, fmt.Errorf("error contacting webhook: %w", err)
}
