package endpoints

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
)

// noController ends the warnings of this file.
const noController = "that controller is disabled (--controllers), and no kube-controller-manager has its lease in kube-system"

// The controllers that deletions wait for, by kube-controller-manager's names.
const (
	namespaceController = "namespace-controller"
	garbageCollector    = "garbage-collector-controller"
)

// warnHeld warns the client of a deletion that waits for a controller, where
// Config.ControllerRuns reports that it does not run: kubectl delete would wait without
// a word.
func (c *call) warnHeld(record *codec.Record, options metav1.DeleteOptions) {
	if record == nil || len(options.DryRun) > 0 {
		return
	}
	obj, err := record.Shared()
	if err != nil {
		return // the response contains it
	}
	if what, controller := held(c.resource.Name, obj); what != "" {
		c.warnWithout(controller, what)
	}
}

// warnHeldCollection is warnHeld for a collection, with the options only.
func (c *call) warnHeldCollection(options metav1.DeleteOptions) {
	policy := options.PropagationPolicy
	foreground := policy != nil && *policy == metav1.DeletePropagationForeground
	orphan := policy != nil && *policy == metav1.DeletePropagationOrphan || options.OrphanDependents != nil && *options.OrphanDependents
	if (foreground || orphan) && len(options.DryRun) == 0 {
		c.warnWithout(garbageCollector, "objects deleted so stay until the garbage collector removes their finalizers")
	}
}

func (c *call) warnWithout(controller, what string) {
	if runs := c.api.config.ControllerRuns; runs != nil && !runs(c.r.Context(), controller) {
		request.AddWarning(c.r.Context(), what+", and "+noController)
	}
}

// held returns the pending work of a controller before a deletion completes, or "".
func held(resource string, obj codec.Object) (what, controller string) {
	if namespace, ok := obj.(*corev1.Namespace); ok && slices.Contains(namespace.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return fmt.Sprintf("namespace %q stays Terminating until a controller empties it and removes %q from spec.finalizers",
			namespace.Name, corev1.FinalizerKubernetes), namespaceController
	}
	for _, finalizer := range []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents} {
		if slices.Contains(obj.GetFinalizers(), finalizer) {
			return fmt.Sprintf("%s %q stays until the garbage collector removes its finalizer %q", resource, obj.GetName(), finalizer), garbageCollector
		}
	}
	return "", ""
}
