package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// validateStopSignal validates a stop signal. The valid signals depend on the operating system.
func (p *pod) validateStopSignal(f validation.Field, signal *corev1.Signal) {
	switch os := p.spec.OS; {
	case signal == nil:
	case os == nil || os.Name == "":
		f.Forbidden("may not be set for containers with empty `spec.os.name`")
	case os.Name == corev1.Windows:
		validation.OneOf(f, *signal, corev1.SIGKILL, corev1.SIGTERM)
	case os.Name == corev1.Linux:
		validateLinuxSignal(f, *signal)
	}
}

func validateLinuxSignal(f validation.Field, signal corev1.Signal) {
	signals := [...]corev1.Signal{ // sorted by name
		corev1.SIGABRT, corev1.SIGALRM, corev1.SIGBUS, corev1.SIGCHLD, corev1.SIGCLD, corev1.SIGCONT, corev1.SIGFPE,
		corev1.SIGHUP, corev1.SIGILL, corev1.SIGINT, corev1.SIGIO, corev1.SIGIOT, corev1.SIGKILL, corev1.SIGPIPE,
		corev1.SIGPOLL, corev1.SIGPROF, corev1.SIGPWR, corev1.SIGQUIT, corev1.SIGRTMAX, corev1.SIGRTMAXMINUS1,
		corev1.SIGRTMAXMINUS10, corev1.SIGRTMAXMINUS11, corev1.SIGRTMAXMINUS12, corev1.SIGRTMAXMINUS13,
		corev1.SIGRTMAXMINUS14, corev1.SIGRTMAXMINUS2, corev1.SIGRTMAXMINUS3, corev1.SIGRTMAXMINUS4, corev1.SIGRTMAXMINUS5,
		corev1.SIGRTMAXMINUS6, corev1.SIGRTMAXMINUS7, corev1.SIGRTMAXMINUS8, corev1.SIGRTMAXMINUS9, corev1.SIGRTMIN,
		corev1.SIGRTMINPLUS1, corev1.SIGRTMINPLUS10, corev1.SIGRTMINPLUS11, corev1.SIGRTMINPLUS12, corev1.SIGRTMINPLUS13,
		corev1.SIGRTMINPLUS14, corev1.SIGRTMINPLUS15, corev1.SIGRTMINPLUS2, corev1.SIGRTMINPLUS3, corev1.SIGRTMINPLUS4,
		corev1.SIGRTMINPLUS5, corev1.SIGRTMINPLUS6, corev1.SIGRTMINPLUS7, corev1.SIGRTMINPLUS8, corev1.SIGRTMINPLUS9,
		corev1.SIGSEGV, corev1.SIGSTKFLT, corev1.SIGSTOP, corev1.SIGSYS, corev1.SIGTERM, corev1.SIGTRAP, corev1.SIGTSTP,
		corev1.SIGTTIN, corev1.SIGTTOU, corev1.SIGURG, corev1.SIGUSR1, corev1.SIGUSR2, corev1.SIGVTALRM, corev1.SIGWINCH,
		corev1.SIGXCPU, corev1.SIGXFSZ,
	}
	validation.OneOf(f, signal, signals[:]...)
}
