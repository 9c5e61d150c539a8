package endpoints

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/request"
)

// noController ends the warnings of this file.
const noController = "no kube-controller-manager holds its lease in kube-system"

// warnHeld warns the client of a deletion that waits for a controller, where
// Config.ControllersRun reports that none runs: kubectl delete would wait without
// a word.
func (c *call) warnHeld(record *codec.Record, options metav1.DeleteOptions) {
	if record == nil || len(options.DryRun) > 0 {
		return
	}
	obj, err := record.Shared()
	if err != nil {
		return // the answer says so
	}
	if what := held(c.resource.Name, obj); what != "" {
		c.warnWithoutControllers(what)
	}
}

// warnHeldCollection is warnHeld for a collection, of which it knows what was
// asked for alone.
func (c *call) warnHeldCollection(options metav1.DeleteOptions) {
	policy := options.PropagationPolicy
	foreground := policy != nil && *policy == metav1.DeletePropagationForeground
	orphan := policy != nil && *policy == metav1.DeletePropagationOrphan || options.OrphanDependents != nil && *options.OrphanDependents
	if (foreground || orphan) && len(options.DryRun) == 0 {
		c.warnWithoutControllers("objects deleted so stay until the garbage collector removes their finalizers")
	}
}

func (c *call) warnWithoutControllers(what string) {
	if run := c.api.config.ControllersRun; run != nil && !run(c.r.Context()) {
		request.AddWarning(c.r.Context(), what+", and "+noController)
	}
}

// held says what a controller has to do before an object goes; "" where none has
// to.
func held(resource string, obj codec.Object) string {
	if namespace, ok := obj.(*corev1.Namespace); ok && slices.Contains(namespace.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return fmt.Sprintf("namespace %q stays Terminating until a controller empties it and removes %q from spec.finalizers",
			namespace.Name, corev1.FinalizerKubernetes)
	}
	for _, finalizer := range []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents} {
		if slices.Contains(obj.GetFinalizers(), finalizer) {
			return fmt.Sprintf("%s %q stays until the garbage collector removes its finalizer %q", resource, obj.GetName(), finalizer)
		}
	}
	return ""
}
