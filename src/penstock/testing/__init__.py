"""What users of Penstock need to test their own policies, plants and preferences."""
