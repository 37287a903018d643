"""The source of the machine around the jobs: its cores, memory, disks, interfaces and sensors."""
