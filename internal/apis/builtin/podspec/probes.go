package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// validateSoleProbe validates a liveness or startup probe, whose success threshold must be 1.
func (p *pod) validateSoleProbe(f validation.Field, probe *corev1.Probe) {
	if probe == nil {
		return
	}
	p.validateProbe(f, probe)
	if probe.SuccessThreshold != 1 {
		f.Child("successThreshold").Invalid(probe.SuccessThreshold, "must be 1")
	}
}

// validateReadinessProbe validates a readiness probe. It rejects a grace period, because a failed readiness
// probe does not terminate the container.
func (p *pod) validateReadinessProbe(f validation.Field, probe *corev1.Probe) {
	if probe == nil {
		return
	}
	p.validateProbe(f, probe)
	if period := probe.TerminationGracePeriodSeconds; period != nil {
		f.Child("terminationGracePeriodSeconds").Invalid(*period, "must not be set for readinessProbes")
	}
}

func (p *pod) validateProbe(f validation.Field, probe *corev1.Probe) {
	p.validateActions(f, actions{
		exec: probe.Exec, httpGet: probe.HTTPGet, tcpSocket: probe.TCPSocket, grpc: probe.GRPC,
	})
	f.Child("initialDelaySeconds").NonNegative(int64(probe.InitialDelaySeconds))
	f.Child("timeoutSeconds").NonNegative(int64(probe.TimeoutSeconds))
	f.Child("periodSeconds").NonNegative(int64(probe.PeriodSeconds))
	f.Child("successThreshold").NonNegative(int64(probe.SuccessThreshold))
	f.Child("failureThreshold").NonNegative(int64(probe.FailureThreshold))
	if period := probe.TerminationGracePeriodSeconds; period != nil && *period <= 0 {
		f.Child("terminationGracePeriodSeconds").Invalid(*period, "must be greater than 0")
	}
}

func (p *pod) validateHandler(f validation.Field, handler *corev1.LifecycleHandler) {
	if handler != nil {
		p.validateActions(f, actions{
			exec: handler.Exec, httpGet: handler.HTTPGet, tcpSocket: handler.TCPSocket, sleep: handler.Sleep,
		})
	}
}

// actions contains the alternative actions of a probe or lifecycle hook. Exactly one must be set.
type actions struct {
	exec      *corev1.ExecAction
	httpGet   *corev1.HTTPGetAction
	tcpSocket *corev1.TCPSocketAction
	grpc      *corev1.GRPCAction
	sleep     *corev1.SleepAction
}

// validateActions validates the first action that is set and rejects the remaining actions.
func (p *pod) validateActions(f validation.Field, a actions) {
	n := 0
	sole := func(at validation.Field) bool {
		if n++; n > 1 {
			at.Forbidden("may not specify more than 1 handler type")
		}
		return n == 1
	}
	if at := f.Child("exec"); a.exec != nil && sole(at) && len(a.exec.Command) == 0 {
		at.Child("command").Required("")
	}
	if at := f.Child("httpGet"); a.httpGet != nil && sole(at) {
		validateHTTPGet(at, a.httpGet)
	}
	if at := f.Child("tcpSocket"); a.tcpSocket != nil && sole(at) {
		at.Child("port").PortNumberOrName(a.tcpSocket.Port)
	}
	if at := f.Child("grpc"); a.grpc != nil && sole(at) {
		at.Child("port").PortNumber(a.grpc.Port)
		if mode := a.grpc.Mode; mode != nil {
			validation.OneOf(at.Child("mode"), *mode, corev1.GRPCProbeModePlaintext, corev1.GRPCProbeModeTLS)
		}
	}
	if at := f.Child("sleep"); a.sleep != nil && sole(at) {
		p.validateSleep(at, a.sleep)
	}
	if n == 0 {
		f.Required("must specify a handler type")
	}
}

func validateHTTPGet(f validation.Field, get *corev1.HTTPGetAction) {
	if get.Path == "" {
		f.Child("path").Required("")
	}
	f.Child("port").PortNumberOrName(get.Port)
	validation.OneOf(f.Child("scheme"), get.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	if protocol := get.Protocol; protocol != nil {
		validation.OneOf(f.Child("protocol"), *protocol, corev1.HTTPProtocolHTTP1, corev1.HTTPProtocolHTTP2)
		if *protocol == corev1.HTTPProtocolHTTP2 && get.Scheme != corev1.URISchemeHTTP {
			f.Child("protocol").Invalid(*protocol, "must be used with scheme HTTP")
		}
	}
	for i := range get.HTTPHeaders {
		if problems := apivalidation.IsHTTPHeaderName(get.HTTPHeaders[i].Name); len(problems) > 0 {
			f.Child("httpHeaders").InvalidFor(get.HTTPHeaders[i].Name, problems)
		}
	}
}

// validateSleep requires that a sleep action is no longer than the pod's termination grace period.
func (p *pod) validateSleep(f validation.Field, sleep *corev1.SleepAction) {
	period := p.spec.TerminationGracePeriodSeconds
	if period != nil && (sleep.Seconds < 0 || sleep.Seconds > *period) {
		f.Invalid(sleep.Seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *period))
	}
}
