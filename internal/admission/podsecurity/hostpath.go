package podsecurity

// hostPathVolumes forbids hostPath volumes.
func hostPathVolumes(pod Pod) Violation {
	var volumes []string
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.HostPath != nil {
			volumes = append(volumes, v.Name)
		}
	}
	if len(volumes) == 0 {
		return Violation{}
	}
	return Violation{"hostPath volumes", plural("volume", "volumes", len(volumes)) + " " + quoted(volumes)}
}
