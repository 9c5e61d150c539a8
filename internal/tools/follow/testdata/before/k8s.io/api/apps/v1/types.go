package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +genclient
// +k8s:prerelease-lifecycle-gen:introduced=1.9

// Pump moves water.
type Pump struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec PumpSpec `json:"spec,omitempty"`
}

// PumpList is a list.
type PumpList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []Pump `json:"items"`
}

// PumpSpec is the desired state.
type PumpSpec struct {
	// Speed in liters per second.
	// +optional
	Speed *int32 `json:"speed,omitempty"`
	// Valves of the pump.
	Valves []Valve `json:"valves,omitempty"`
	// Old is not used.
	Old string `json:"old,omitempty"`
}

// Valve opens and closes.
type Valve struct {
	// +k8s:maxItems=4
	Mode     Mode `json:"mode"`
	internal string
}

// +enum
type Mode string

const (
	Open   Mode = "Open"
	Closed Mode = "Closed"
)
