package core

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/core/allocation"
)

// nodePorts allocates the node ports of a service.
func (a *serviceAllocator) nodePorts(service, old *corev1.Service) error {
	spec := &service.Spec
	if !hasNodePorts(spec) {
		return nil
	}
	a.avoidChosenPorts(service)
	shared := newSharedPorts(service, old)
	for i := range spec.Ports {
		port := &spec.Ports[i]
		if port.NodePort == 0 && !needsNodePorts(spec) {
			continue
		}
		shared.fill(port)
		var err error
		switch {
		case shared.has(port):
		case port.NodePort == 0:
			port.NodePort, err = a.anyPort("failed to allocate a nodePort")
		default:
			if err = a.chosenPort(port.NodePort); allocation.IsUnavailable(err) {
				err = invalidService(service, field.ErrorList{
					field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port.NodePort, err.Error()),
				})
			}
		}
		if err != nil {
			return err
		}
		shared.add(port)
	}
	return nil
}

// avoidChosenPorts prevents that another port of the service is assigned a port that the client chose.
func (a *serviceAllocator) avoidChosenPorts(service *corev1.Service) {
	for _, port := range portsOf(service) {
		a.batch.Avoid(a.ports, portName(port))
	}
}

// sharedPorts tracks the node ports of one service. In a new service, ports that have the same number and
// different protocols share a node port. On update, the client decides which ports share a node port.
type sharedPorts struct {
	creation bool
	byNumber map[int32]int32
	known    map[sharedPort]bool
}

// sharedPort is the key of sharedPorts.known. number is the number of the service port in a new service; on
// update, it is 0.
type sharedPort struct{ nodePort, number int32 }

func newSharedPorts(service, old *corev1.Service) *sharedPorts {
	s := &sharedPorts{creation: old == nil, known: map[sharedPort]bool{}}
	if !s.creation {
		for _, port := range nodePortsOf(old) {
			s.known[sharedPort{nodePort: port}] = true
		}
		return s
	}
	s.byNumber = map[int32]int32{}
	for _, port := range slices.Backward(service.Spec.Ports) { // the first chosen node port takes precedence
		if port.NodePort != 0 {
			s.byNumber[port.Port] = port.NodePort
		}
	}
	return s
}

func (s *sharedPorts) key(port *corev1.ServicePort) sharedPort {
	if s.creation {
		return sharedPort{port.NodePort, port.Port}
	}
	return sharedPort{nodePort: port.NodePort}
}

// fill sets a missing node port to the node port of another service port with the same number, if there is
// such a port.
func (s *sharedPorts) fill(port *corev1.ServicePort) {
	if port.NodePort == 0 {
		port.NodePort = s.byNumber[port.Port]
	}
}

func (s *sharedPorts) has(port *corev1.ServicePort) bool { return s.known[s.key(port)] }

func (s *sharedPorts) add(port *corev1.ServicePort) {
	s.known[s.key(port)] = true
	if s.creation {
		s.byNumber[port.Port] = port.NodePort
	}
}

// healthCheckPort allocates the health check port of a service.
func (a *serviceAllocator) healthCheckPort(service, old *corev1.Service) (err error) {
	port := &service.Spec.HealthCheckNodePort
	switch {
	case !needsHealthCheckPort(service), old != nil && *port != 0 && needsHealthCheckPort(old) && *port == old.Spec.HealthCheckNodePort:
	case *port == 0:
		*port, err = a.anyPort("failed to allocate a HealthCheck NodePort 0")
	default:
		if err = a.chosenPort(*port); allocation.IsUnavailable(err) {
			err = apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %d: %w", *port, err))
		}
	}
	return err
}

// firstGuess is the first node port that kube-apiserver returns in a dry run.
const firstGuess = 32769

// anyPort allocates any free port. failure is the prefix of error messages. As in kube-apiserver, a dry run
// returns firstGuess or, if ports have already been returned or chosen, the highest of them plus one. This
// port might be out of range.
func (a *serviceAllocator) anyPort(failure string) (int32, error) {
	if a.op.DryRun {
		guess := int32(firstGuess)
		if len(a.guessed) > 0 {
			guess = max(0, slices.Max(a.guessed)) + 1
		}
		a.guessed = append(a.guessed, guess)
		return guess, nil
	}
	name, err := a.batch.ClaimAny(a.op.Context, a.ports, allocation.Ports(a.op.Env.Services.NodePorts))
	if allocation.IsUnavailable(err) {
		err = apierrors.NewInternalError(fmt.Errorf("%s: %w", failure, err))
	}
	if err != nil {
		return 0, err
	}
	port, err := strconv.ParseInt(name, 10, 32)
	return int32(port), err
}

// chosenPort allocates a port that the client chose. A dry run does not check whether the port is in the
// range.
func (a *serviceAllocator) chosenPort(port int32) error {
	if a.op.DryRun {
		a.guessed = append(a.guessed, port)
	} else if ports := a.op.Env.Services.NodePorts; !ports.Contains(int(port)) {
		return allocation.UnavailableError("provided port is not in the valid range. The range of valid ports is " + ports.String())
	}
	return a.batch.Claim(a.op.Context, a.ports, portName(port))
}
