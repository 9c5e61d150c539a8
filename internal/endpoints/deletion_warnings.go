package endpoints

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
)

// noControllerMessage is the end of all warnings in this file.
const noControllerMessage = "that controller is disabled (--controllers), and no kube-controller-manager has its lease in kube-system"

// Controllers that complete deletions. The names are those in kube-controller-manager.
const (
	namespaceController = "namespace-controller"
	garbageCollector    = "garbage-collector-controller"
)

// warnPending adds a warning if a deletion waits for a controller that is not running
// (Config.ControllerRuns). Without the warning, kubectl delete would wait with no explanation.
func (c *call) warnPending(record *codec.Record, options metav1.DeleteOptions) {
	if record == nil || len(options.DryRun) > 0 {
		return
	}
	obj, err := record.Shared()
	if err != nil {
		return // the response reports the error
	}
	if what, controller := pendingWork(c.resource.Name, obj); what != "" {
		c.warnMissingController(controller, what)
	}
}

// warnPendingCollection is like warnPending, for the deletion of a collection. It considers only the
// options, not the objects.
func (c *call) warnPendingCollection(options metav1.DeleteOptions) {
	policy := options.PropagationPolicy
	foreground := policy != nil && *policy == metav1.DeletePropagationForeground
	orphan := policy != nil && *policy == metav1.DeletePropagationOrphan || options.OrphanDependents != nil && *options.OrphanDependents
	if (foreground || orphan) && len(options.DryRun) == 0 {
		c.warnMissingController(garbageCollector, "objects deleted with this policy stay until the garbage collector removes their finalizers")
	}
}

func (c *call) warnMissingController(controller, what string) {
	if runs := c.api.config.ControllerRuns; runs != nil && !runs(c.r.Context(), controller) {
		request.AddWarning(c.r.Context(), what+", and "+noControllerMessage)
	}
}

// pendingWork describes the work that delays the deletion of obj, and returns the name of the
// responsible controller. Both are empty if no work is pending.
func pendingWork(resource string, obj codec.Object) (what, controller string) {
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
