package apiregistration

import (
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

const servicePort = 443

func defaultAPIService(service *apiregistrationv1.APIService) {
	if s := service.Spec.Service; s != nil {
		builtin.SetDefault(&s.Port, servicePort)
	}
}
